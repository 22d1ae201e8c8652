# Compiles for arm64 macOS on Linux with zig's clang, against the wheel mlx-metal. Used by tools/macos/cross_build.py,
# which puts the compiler wrappers and the include folder into POME_MACOS_DIR.
set(CMAKE_SYSTEM_NAME Darwin)
set(CMAKE_SYSTEM_PROCESSOR arm64)
list(APPEND CMAKE_TRY_COMPILE_PLATFORM_VARIABLES POME_MACOS_DIR)
set(CMAKE_TRY_COMPILE_TARGET_TYPE STATIC_LIBRARY)
set(CMAKE_C_COMPILER ${POME_MACOS_DIR}/bin/cc)
set(CMAKE_CXX_COMPILER ${POME_MACOS_DIR}/bin/c++)
set(CMAKE_AR ${POME_MACOS_DIR}/bin/ar CACHE FILEPATH "")
set(CMAKE_RANLIB ${POME_MACOS_DIR}/bin/ranlib CACHE FILEPATH "")
set(CMAKE_INSTALL_NAME_TOOL ${POME_MACOS_DIR}/bin/true CACHE FILEPATH "")
set(CMAKE_OSX_SYSROOT "" CACHE PATH "")
set(CMAKE_OSX_DEPLOYMENT_TARGET "" CACHE STRING "")
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
