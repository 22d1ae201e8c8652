# Every library that pome uses, with the reason. Each is wrapped by one room, so it can be replaced.
# Versions: the lowest that is tested (Debian 12) and the newest must both compile.

if(POME_MACOS_DIR)
  include(${CMAKE_SOURCE_DIR}/tools/macos/deps.cmake)  # the cross build, which has headers only
  return()
endif()

find_package(Threads REQUIRED)

# fmt >= 9 (MIT) and spdlog >= 1.10 (MIT): log lines and formatting; std::format is missing in g++ 12.
# Wrapped by base.
find_package(fmt REQUIRED)
find_package(spdlog REQUIRED)

# Boost >= 1.81 (BSL-1.0): Beast and Asio carry HTTP and WebSocket (wrapped by server), Boost.JSON reads and
# writes JSON (wrapped by base). A parser of untrusted bytes is no place for own code.
find_package(Boost 1.81 REQUIRED COMPONENTS json)

# OpenSSL >= 3 (Apache-2.0): SHA-256 of downloaded files. Wrapped by hub.
find_package(OpenSSL REQUIRED)

# CLI11 >= 2.1 (BSD-3): command lines. Wrapped by apps.
find_package(CLI11 REQUIRED)

# yaml-cpp >= 0.7 (MIT): the file of --config, which is YAML as SGLang's. Wrapped by apps.
find_package(yaml-cpp REQUIRED)

# prometheus-cpp >= 1.0 (MIT): the /metrics text format. Wrapped by telemetry.
find_package(prometheus-cpp CONFIG REQUIRED)

if(POME_WITH_MLX)
  # MLX >= 0.32 (MIT): arrays, lazy graphs and the Metal, CUDA and CPU back ends. The wheel in .venv is found
  # by itself; -DMLX_ROOT or CMAKE_PREFIX_PATH name another one. POME_MLX_CUDA takes the one in .venv-cuda.
  if(POME_MLX_CUDA)
    include(mlx_cuda)
  else()
    file(GLOB _mlx_wheel ${CMAKE_SOURCE_DIR}/.venv/lib/python3*/site-packages/mlx)
    list(APPEND CMAKE_PREFIX_PATH ${_mlx_wheel})
    find_package(MLX CONFIG REQUIRED)
  endif()
  set_property(TARGET mlx APPEND PROPERTY INTERFACE_SYSTEM_INCLUDE_DIRECTORIES ${MLX_INCLUDE_DIRS})

  # Highway >= 1.0.3 (Apache-2.0): SIMD with run-time dispatch, one source for SSE4 to AVX-512 and NEON.
  # Wrapped by kernels.
  find_package(PkgConfig REQUIRED)
  pkg_check_modules(hwy REQUIRED IMPORTED_TARGET libhwy)
endif()

if(POME_BUILD_TESTS)
  # GoogleTest >= 1.12 (BSD-3): the test runner of every C++ ring.
  find_package(GTest REQUIRED)
endif()

# Google Benchmark >= 1.7 (Apache-2.0): the kernel micro-benchmarks, built only where it is installed. Wrapped by bench.
if(POME_WITH_MLX)
  find_package(benchmark QUIET)
endif()
