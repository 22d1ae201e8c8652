#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

// UTF-8 as RFC 3629 and Unicode 15, table 3-7 define it: no overlong forms, no surrogates, nothing
// past U+10FFFF.
namespace pome {

// Bytes of the character that `lead` begins, 1 to 4; 0: no character begins so.
size_t character_bytes(unsigned char lead);

// Whether `byte` may be the second byte of a character that `lead` begins. The third and the fourth
// are 0x80 to 0xBF.
bool may_be_second(unsigned char lead, unsigned char byte);

// How many characters begin in `bytes`.
int32_t characters_in(std::string_view bytes);

// Where the text stops being UTF-8; nothing where all of it is.
std::optional<size_t> first_invalid_byte(std::string_view text);

// The text with one U+FFFD in place of each maximal ill-formed sequence.
std::string valid_utf8(std::string_view bytes);

}  // namespace pome
