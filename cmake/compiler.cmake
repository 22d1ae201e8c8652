# Warnings, sanitizers and the compiler cache: everything that holds for each target.
find_program(POME_CCACHE ccache)
if(POME_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  # Precompiled headers and ccache agree only with these settings.
  set(CMAKE_CXX_COMPILER_LAUNCHER
      ${CMAKE_COMMAND} -E env CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime
      CCACHE_NOHASHDIR=1 CCACHE_BASEDIR=${CMAKE_SOURCE_DIR} ${POME_CCACHE})
endif()

add_library(pome_options INTERFACE)
target_include_directories(pome_options INTERFACE ${CMAKE_SOURCE_DIR}/src)
target_compile_options(pome_options INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wno-sign-conversion -Werror
  # One rounding per operation: fused multiply-adds are written out where they are meant.
  -ffp-contract=off)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # g++ 12 reports these in inlined standard-library code where nothing is wrong.
  target_compile_options(pome_options INTERFACE -Wno-maybe-uninitialized -Wno-restrict -Wno-stringop-overflow
                         -Wno-array-bounds -Wno-dangling-pointer)
endif()
if(POME_BUILD_FUZZERS AND CMAKE_CXX_COMPILER_ID MATCHES "Clang" AND NOT APPLE)
  add_compile_options(-fsanitize=fuzzer-no-link)
endif()
if(POME_SANITIZE)
  add_compile_options(-fsanitize=${POME_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${POME_SANITIZE})
  if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang" AND NOT APPLE)
    # Clang 14 cannot assemble a coroutine with this check: "Cannot represent a difference across sections".
    add_compile_options(-fno-sanitize=function)
  endif()
endif()
