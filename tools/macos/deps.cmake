# The libraries of cmake/deps.cmake for the macOS cross build: headers only, so that every name of a third-party
# library stays open in the link; MLX alone is real.
set(headers ${POME_MACOS_DIR}/include)
add_library(pome_macos_headers INTERFACE)
target_include_directories(pome_macos_headers SYSTEM INTERFACE ${headers})
target_compile_definitions(pome_macos_headers INTERFACE SPDLOG_COMPILED_LIB SPDLOG_FMT_EXTERNAL)
foreach(library Threads::Threads fmt::fmt spdlog::spdlog Boost::headers Boost::boost Boost::json OpenSSL::Crypto
                OpenSSL::SSL CLI11::CLI11 prometheus-cpp::core PkgConfig::hwy yaml-cpp)
  if(NOT TARGET ${library})
    add_library(${library} INTERFACE IMPORTED GLOBAL)
    set_property(TARGET ${library} PROPERTY INTERFACE_LINK_LIBRARIES pome_macos_headers)
  endif()
endforeach()

add_library(mlx SHARED IMPORTED GLOBAL)
set_target_properties(mlx PROPERTIES
  IMPORTED_LOCATION ${POME_MACOS_DIR}/mlx/lib/libmlx.dylib
  IMPORTED_NO_SONAME TRUE)
target_include_directories(mlx SYSTEM INTERFACE
  ${POME_MACOS_DIR}/mlx/include ${POME_MACOS_DIR}/mlx/include/metal_cpp ${CMAKE_SOURCE_DIR}/tools/macos/stubs)
set(MLX_BUILD_METAL ON)
