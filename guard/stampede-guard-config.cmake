# stampede-guard-config.cmake - find_package(stampede-guard) gives the target stampede-guard::guard, as the pkg-config file
# of the same library folder has it.
include(CMakeFindDependencyMacro)
find_dependency(PkgConfig)
set(stampede_guard_path "$ENV{PKG_CONFIG_PATH}")
set(ENV{PKG_CONFIG_PATH} "${CMAKE_CURRENT_LIST_DIR}/../../pkgconfig:${stampede_guard_path}")
pkg_check_modules(STAMPEDE_GUARD QUIET IMPORTED_TARGET GLOBAL stampede-guard)
set(ENV{PKG_CONFIG_PATH} "${stampede_guard_path}")
if(STAMPEDE_GUARD_FOUND AND NOT TARGET stampede-guard::guard)
    add_library(stampede-guard::guard ALIAS PkgConfig::STAMPEDE_GUARD)
endif()
set(stampede-guard_FOUND ${STAMPEDE_GUARD_FOUND})
