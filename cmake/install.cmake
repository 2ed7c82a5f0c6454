# The programs, the library with its header and pkg-config file, the manual pages.
foreach(PROGRAM mlxcel mlxcel-server)
  if(TARGET ${PROGRAM})
    install(TARGETS ${PROGRAM} RUNTIME)
  endif()
endforeach()

set(HEADER include/mlxcel.h)
if(EXISTS ${CMAKE_SOURCE_DIR}/${HEADER})
  install(FILES ${HEADER} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
  install(TARGETS mlxcel-lib ARCHIVE)
  if(BUILD_SHARED_LIBS)
    add_library(mlxcel-shared SHARED ${LIB_SOURCES})
    target_compile_definitions(mlxcel-shared PRIVATE MLXCEL_VERSION="${PROJECT_VERSION}"
      MLXCEL_FEATURES="${FEATURES}")
    target_link_libraries(mlxcel-shared PRIVATE options Threads::Threads m PkgConfig::JSONC
      PkgConfig::ONIG PkgConfig::UTF8PROC)
    set_target_properties(mlxcel-shared PROPERTIES OUTPUT_NAME mlxcel
      VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR})
    install(TARGETS mlxcel-shared LIBRARY)
  endif()
  file(RELATIVE_PATH UP /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
  configure_file(cmake/mlxcel.pc.in mlxcel.pc @ONLY)
  install(FILES ${CMAKE_BINARY_DIR}/mlxcel.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
endif()
