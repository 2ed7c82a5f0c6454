# The programs, the library with its header and pkg-config file, the manual page.
add_custom_target(programs DEPENDS mlxcel-lib)
foreach(PROGRAM mlxcel mlxcel-server)
  if(TARGET ${PROGRAM})
    add_dependencies(programs ${PROGRAM})
    install(TARGETS ${PROGRAM} RUNTIME)
  endif()
endforeach()

# The manual page is written by the program, from the table that --help prints.
if(TARGET mlxcel AND NOT CMAKE_CROSSCOMPILING)
  add_custom_command(OUTPUT mlxcel.1 COMMAND mlxcel --man > mlxcel.1 DEPENDS mlxcel VERBATIM)
  add_custom_target(man ALL DEPENDS mlxcel.1)
  add_dependencies(programs man)
  install(FILES ${CMAKE_BINARY_DIR}/mlxcel.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
endif()

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
  # Beside a shared library its own needs are its own; an archive's are those of the program.
  if(BUILD_SHARED_LIBS)
    set(PC_PRIVATE .private)
  else()
    set(PC_LIBS " -lm -lpthread")
  endif()
  file(RELATIVE_PATH UP /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
  configure_file(cmake/mlxcel.pc.in mlxcel.pc @ONLY)
  install(FILES ${CMAKE_BINARY_DIR}/mlxcel.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
endif()
