# The targets dumpulse::dumpulse and dumpulse::header, and what `cmake --install` puts where.
#                                                         SPDX-License-Identifier: MIT
set(is_alone OFF) # is this the whole build, and no part of another project's?
if(CMAKE_SOURCE_DIR STREQUAL PROJECT_SOURCE_DIR)
    set(is_alone ON)
endif()
option(DUMPULSE_INSTALL "Install Dumpulse's header, library and package files" ${is_alone})

# If one of these changes, CMake reads them again.
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS dumpulse.h packages/library.txt)

add_library(dumpulse_header INTERFACE)
add_library(dumpulse::header ALIAS dumpulse_header)
include(GNUInstallDirs)
target_include_directories(dumpulse_header INTERFACE
    $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}> $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/extras>
    $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)

# It is static, so that it finds the hooks in the user's program: only those of its role are needed.
add_library(dumpulse STATIC ${DUMPULSE_SOURCES})
if("${CMAKE_SYSTEM_PROCESSOR} ${CMAKE_C_COMPILER}" MATCHES "avr")
    enable_language(ASM)
    target_sources(dumpulse PRIVATE ${DUMPULSE_AVR})
endif()
add_library(dumpulse::dumpulse ALIAS dumpulse)
target_link_libraries(dumpulse PUBLIC dumpulse_header)
target_compile_features(dumpulse PRIVATE c_std_99)
set_target_properties(dumpulse_header PROPERTIES EXPORT_NAME header)

if(DUMPULSE_INSTALL)
    set(package ${CMAKE_INSTALL_LIBDIR}/cmake/dumpulse)
    install(TARGETS dumpulse dumpulse_header EXPORT dumpulse
            ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
    install(FILES ${DUMPULSE_HEADERS} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
    install(EXPORT dumpulse NAMESPACE dumpulse:: FILE dumpulseConfig.cmake DESTINATION ${package})
    include(CMakePackageConfigHelpers)
    write_basic_package_version_file(dumpulseConfigVersion.cmake COMPATIBILITY SameMajorVersion)
    install(FILES ${CMAKE_CURRENT_BINARY_DIR}/dumpulseConfigVersion.cmake DESTINATION ${package})

    # dumpulse.pc finds the prefix from where it is itself, because `cmake --install --prefix` can
    # choose another prefix later.
    file(RELATIVE_PATH prefix ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig ${CMAKE_INSTALL_PREFIX})
    file(RELATIVE_PATH libdir ${CMAKE_INSTALL_PREFIX} ${CMAKE_INSTALL_FULL_LIBDIR})
    file(RELATIVE_PATH includedir ${CMAKE_INSTALL_PREFIX} ${CMAKE_INSTALL_FULL_INCLUDEDIR})
    set(prefix "\${pcfiledir}/${prefix}")
    set(libdir "\${prefix}/${libdir}")
    set(includedir "\${prefix}/${includedir}")
    set(version ${DUMPULSE_VERSION})
    configure_file(packages/pkgconfig/dumpulse.pc.in dumpulse.pc @ONLY)
    install(FILES ${CMAKE_CURRENT_BINARY_DIR}/dumpulse.pc
            DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
else()
    set_target_properties(dumpulse PROPERTIES EXCLUDE_FROM_ALL ON) # nodes do not need it
endif()
