# Brings CUTLASS's headers from PyPI into the build folder (version and hash are pinned in cutlass-requirements.txt) and
# defines the interface library glint_cutlass. Only a peer in glint-gpu-bench uses them.
set(CUTLASS_VERSION 4.2.0.0)
set(cutlass_dir ${CMAKE_BINARY_DIR}/third_party/cutlass-${CUTLASS_VERSION})

function(glint_fetch_cutlass)
  find_program(GLINT_PYTHON NAMES python3 PATHS /usr/bin NO_DEFAULT_PATH)
  find_program(GLINT_PYTHON NAMES python3)
  set(folder ${CMAKE_BINARY_DIR}/third_party)
  message(STATUS "Fetching nvidia-cutlass ${CUTLASS_VERSION} from PyPI")
  execute_process(
    COMMAND ${GLINT_PYTHON} -m pip download --quiet --disable-pip-version-check --no-deps --only-binary :all:
            --require-hashes --dest ${folder} -r ${PROJECT_SOURCE_DIR}/cmake/cutlass-requirements.txt
    RESULT_VARIABLE result ERROR_VARIABLE errors)
  if(NOT result EQUAL 0)
    message(FATAL_ERROR "CUTLASS could not be fetched (python3-pip and a way to PyPI are needed); "
      "-DGLINT_CUTLASS=OFF builds without it:\n${errors}")
  endif()
  file(ARCHIVE_EXTRACT INPUT ${folder}/nvidia_cutlass-${CUTLASS_VERSION}-py3-none-any.whl DESTINATION ${cutlass_dir}
       PATTERNS cutlass_library/source/include/* cutlass_library/source/tools/util/include/*)
endfunction()

set(cutlass_source ${cutlass_dir}/cutlass_library/source)
if(NOT EXISTS ${cutlass_source}/include/cutlass/cutlass.h)
  glint_fetch_cutlass()
endif()
add_library(glint_cutlass INTERFACE)
target_include_directories(glint_cutlass SYSTEM INTERFACE ${cutlass_source}/include ${cutlass_source}/tools/util/include)
