# A file's text as a string constant: embed_text(TARGET pome_x FILE append.metal NAME kAppendMetal) makes the header
# append.metal.h, which the target finds as "append.metal.h". The text is one raw string and must not hold )text".
function(embed_text)
  cmake_parse_arguments(E "" "TARGET;FILE;NAME" "" ${ARGN})
  set(source ${CMAKE_CURRENT_SOURCE_DIR}/${E_FILE})
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${source})
  file(READ ${source} text)
  file(CONFIGURE OUTPUT ${CMAKE_CURRENT_BINARY_DIR}/embedded/${E_FILE}.h CONTENT
       "#pragma once\n\n#include <string_view>\n\ninline constexpr std::string_view @E_NAME@ = R\"text(@text@)text\";\n"
       @ONLY)
  target_include_directories(${E_TARGET} PRIVATE ${CMAKE_CURRENT_BINARY_DIR}/embedded)
endfunction()

# Text files as one table: embed_files(TARGET pome_x FOLDER dir HEADER web_files.h NAME kWebFiles FILES a.css b.js) makes
# the header, with name, text and digest of each. The same rule for )text" holds.
function(embed_files)
  cmake_parse_arguments(E "" "TARGET;FOLDER;HEADER;NAME" "FILES" ${ARGN})
  set(rows "")
  foreach(file ${E_FILES})
    set(source ${E_FOLDER}/${file})
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${source})
    file(READ ${source} text)
    file(SHA256 ${source} digest)
    string(SUBSTRING ${digest} 0 16 digest)
    string(APPEND rows "    {\"${file}\", R\"text(${text})text\", \"${digest}\"},\n")
  endforeach()
  file(CONFIGURE OUTPUT ${CMAKE_CURRENT_BINARY_DIR}/embedded/${E_HEADER} CONTENT
       "#pragma once

#include <string_view>

struct @E_NAME@Row {
  std::string_view name;
  std::string_view text;
  std::string_view digest;
};

inline constexpr @E_NAME@Row @E_NAME@[] = {
@rows@};
" @ONLY)
  target_include_directories(${E_TARGET} PRIVATE ${CMAKE_CURRENT_BINARY_DIR}/embedded)
endfunction()
