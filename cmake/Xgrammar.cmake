# Brings xgrammar's source archive from PyPI into the build folder (version and hash are pinned in
# xgrammar-requirements.txt) and defines the static library glint_xgrammar from it. Its own CMakeLists is not used: it wants
# Python bindings, -Werror and link-time optimisation.
set(XGRAMMAR_VERSION 0.2.8)
set(xgrammar_dir ${CMAKE_BINARY_DIR}/third_party/xgrammar-${XGRAMMAR_VERSION})

function(glint_fetch_xgrammar)
  find_program(GLINT_PYTHON NAMES python3 PATHS /usr/bin NO_DEFAULT_PATH)
  find_program(GLINT_PYTHON NAMES python3)
  set(advice "or configure with -DGLINT_XGRAMMAR=OFF (no structured output, no constrained tool calls)")
  if(NOT GLINT_PYTHON)
    message(FATAL_ERROR "xgrammar is fetched with Python's pip, and there is no python3: install python3-pip, ${advice}")
  endif()
  set(folder ${CMAKE_BINARY_DIR}/third_party)
  message(STATUS "Fetching xgrammar ${XGRAMMAR_VERSION} from PyPI")
  execute_process(
    COMMAND ${CMAKE_COMMAND} -E env PYTHONPATH=${PROJECT_SOURCE_DIR}/tools/sdist PYTHONDONTWRITEBYTECODE=1
            ${GLINT_PYTHON} -m pip download --quiet --disable-pip-version-check --no-deps --no-binary :all:
            --no-build-isolation --require-hashes --dest ${folder}
            -r ${PROJECT_SOURCE_DIR}/cmake/xgrammar-requirements.txt
    RESULT_VARIABLE result ERROR_VARIABLE errors)
  if(NOT result EQUAL 0)
    message(FATAL_ERROR "xgrammar could not be fetched (python3-pip and a way to PyPI are needed), ${advice}:\n${errors}")
  endif()
  file(ARCHIVE_EXTRACT INPUT ${folder}/xgrammar-${XGRAMMAR_VERSION}.tar.gz DESTINATION ${folder}
       PATTERNS */cpp/* */include/* */3rdparty/picojson/* */3rdparty/dlpack/include/*)
endfunction()

if(NOT EXISTS ${xgrammar_dir}/include/xgrammar/xgrammar.h)
  glint_fetch_xgrammar()
endif()
file(GLOB xgrammar_sources ${xgrammar_dir}/cpp/*.cc ${xgrammar_dir}/cpp/support/*.cc ${xgrammar_dir}/cpp/converter_ext/*.cc)
add_library(glint_xgrammar STATIC EXCLUDE_FROM_ALL ${xgrammar_sources})
target_include_directories(glint_xgrammar SYSTEM PUBLIC ${xgrammar_dir}/include
  ${xgrammar_dir}/3rdparty/picojson ${xgrammar_dir}/3rdparty/dlpack/include)
# XGRAMMAR_LOG_CUSTOMIZE: its warnings are ours to judge (src/text/grammar/xgrammar_log.cc).
target_compile_definitions(glint_xgrammar PUBLIC XGRAMMAR_ENABLE_CPPTRACE=0 XGRAMMAR_ENABLE_INTERNAL_CHECK=0
  XGRAMMAR_LOG_CUSTOMIZE=1)
# EarleyParser::Advance(unsigned char, bool): work_limit.cc looks at the clock in front of it.
target_link_options(glint_xgrammar INTERFACE LINKER:--wrap=_ZN8xgrammar12EarleyParser7AdvanceEhb)
target_compile_options(glint_xgrammar PRIVATE -O2 -w)
target_compile_features(glint_xgrammar PRIVATE cxx_std_17)
set_target_properties(glint_xgrammar PROPERTIES EXPORT_COMPILE_COMMANDS OFF)
target_link_libraries(glint_xgrammar PUBLIC Threads::Threads)
if(GLINT_SANITIZE)
  target_compile_options(glint_xgrammar PRIVATE -fsanitize=${GLINT_SANITIZE})
endif()
