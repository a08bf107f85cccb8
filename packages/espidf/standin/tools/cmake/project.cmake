# A stand-in for ESP-IDF's build system, for tests on this machine: it builds a project's main
# component and the component in the folder COMPONENT.    SPDX-License-Identifier: MIT
set(ESP_PLATFORM 1)
set(standin ${CMAKE_CURRENT_LIST_DIR}/../..)

function(idf_component_register)
    cmake_parse_arguments(its "" "" "SRCS;INCLUDE_DIRS" ${ARGN})
    if(its_UNPARSED_ARGUMENTS)
        message(FATAL_ERROR "idf_component_register: ${its_UNPARSED_ARGUMENTS} is unknown")
    endif()
    get_filename_component(name ${CMAKE_CURRENT_SOURCE_DIR} NAME)
    add_library(component_${name} STATIC ${its_SRCS})
    target_include_directories(component_${name} PUBLIC ${standin} ${its_INCLUDE_DIRS})
    target_compile_options(component_${name} PRIVATE -std=gnu11 -Wall -Wextra -Werror)
    set_property(GLOBAL APPEND PROPERTY components component_${name})
endfunction()

macro(project name)
    _project(${name} LANGUAGES C)
    add_subdirectory(${COMPONENT} component)
    add_subdirectory(main)
    get_property(other GLOBAL PROPERTY components)
    list(REMOVE_ITEM other component_main)
    target_link_libraries(component_main PRIVATE ${other}) # main uses all others
    add_executable(${name} ${standin}/esp32.c)
    target_link_libraries(${name} PRIVATE component_main)
endmacro()
