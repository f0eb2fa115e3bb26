# Foreign libraries, each found by pkg-config or find_package and used behind one adapter.
find_package(Threads REQUIRED)
find_package(PkgConfig REQUIRED)
find_package(JPEG REQUIRED)
pkg_check_modules(JANSSON REQUIRED IMPORTED_TARGET jansson)
pkg_check_modules(FYAML REQUIRED IMPORTED_TARGET libfyaml)
pkg_check_modules(ISAL REQUIRED IMPORTED_TARGET libisal)
pkg_check_modules(XXHASH REQUIRED IMPORTED_TARGET libxxhash)
pkg_check_modules(CMOCKA IMPORTED_TARGET cmocka)
