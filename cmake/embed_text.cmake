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
