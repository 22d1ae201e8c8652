# MLX from the wheel mlx-cuda-13. Its CMake package asks for NVIDIA's toolkit, which a program without device code of
# its own does not need; and what the library itself needs (the driver's too) is there when the program runs, not here.
file(GLOB _mlx_wheel ${CMAKE_SOURCE_DIR}/.venv-cuda/lib/python3*/site-packages/mlx)
if(NOT EXISTS "${_mlx_wheel}/lib/libmlx.so")
  message(FATAL_ERROR "the wheel mlx-cuda-13 is not in .venv-cuda: run ./dev build cuda")
endif()
set(MLX_INCLUDE_DIRS ${_mlx_wheel}/include)
file(STRINGS ${MLX_INCLUDE_DIRS}/mlx/version.h _lines REGEX "define MLX_VERSION_(MAJOR|MINOR|PATCH) ")
string(REGEX MATCHALL "[0-9]+" _numbers "${_lines}")
list(JOIN _numbers "." MLX_VERSION)
add_library(mlx SHARED IMPORTED)
set_target_properties(mlx PROPERTIES IMPORTED_LOCATION ${_mlx_wheel}/lib/libmlx.so
                      INTERFACE_INCLUDE_DIRECTORIES ${MLX_INCLUDE_DIRS} INTERFACE_COMPILE_FEATURES cxx_std_20)
target_link_options(mlx INTERFACE -Wl,--allow-shlib-undefined)
message(STATUS "MLX ${MLX_VERSION} for CUDA in ${_mlx_wheel}")
