# The programs, the library with its header and pkg-config file, the manual pages.
add_custom_target(programs DEPENDS mlxcel-lib)
foreach(PROGRAM mlxcel mlxcel-server)
  if(TARGET ${PROGRAM})
    add_dependencies(programs ${PROGRAM})
    # Libraries that lie beside an installed program (tools/dist) are found, those that they need
    # too, which the newer tag (RUNPATH) does not do.
    set_target_properties(${PROGRAM} PROPERTIES INSTALL_RPATH "$ORIGIN/../lib")
    target_link_options(${PROGRAM} PRIVATE -Wl,--disable-new-dtags)
    install(TARGETS ${PROGRAM} RUNTIME)
  endif()
endforeach()

# The manual pages are written by the programs, from the tables that --help prints.
add_custom_target(man ALL)
add_dependencies(programs man)
foreach(PROGRAM mlxcel mlxcel-server)
  if(TARGET ${PROGRAM} AND NOT CMAKE_CROSSCOMPILING)
    add_custom_command(OUTPUT ${PROGRAM}.1 COMMAND ${PROGRAM} --man > ${PROGRAM}.1
      DEPENDS ${PROGRAM} VERBATIM)
    add_custom_target(man-${PROGRAM} DEPENDS ${PROGRAM}.1)
    add_dependencies(man man-${PROGRAM})
    install(FILES ${CMAKE_BINARY_DIR}/${PROGRAM}.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
  endif()
endforeach()

set(HEADER include/mlxcel.h)
if(EXISTS ${CMAKE_SOURCE_DIR}/${HEADER})
  install(FILES ${HEADER} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
  install(TARGETS mlxcel-lib)
  if(BUILD_SHARED_LIBS)
    add_library(mlxcel-shared SHARED ${LIB_SOURCES})
    target_compile_definitions(mlxcel-shared PRIVATE MLXCEL_VERSION="${PROJECT_VERSION}"
      MLXCEL_FEATURES="${FEATURES}")
    target_link_libraries(mlxcel-shared PRIVATE options Threads::Threads m PkgConfig::JSONC
      PkgConfig::ONIG PkgConfig::UTF8PROC)
    if(MLXCEL_CUDA)
      target_compile_definitions(mlxcel-shared PRIVATE HAVE_CUDA)
      target_link_libraries(mlxcel-shared PRIVATE CUDA::cudart_static ${CMAKE_DL_LIBS})
    endif()
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
