# The package: one static library with the SDK, the protocol and what they need of common/base, its headers, and the files by which
# CMake (find_package(Millstream)) and pkg-config (millstream) find it. Needs Abseil; MessagePack (headers) to be built.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)
find_package(absl REQUIRED)
find_path(MSGPACK_INCLUDE_DIR msgpack.hpp REQUIRED)

get_filename_component(repository ${CMAKE_CURRENT_SOURCE_DIR}/../.. ABSOLUTE)
set(protocol_sources decode.cc decode_sidecar.cc decode_worker.cc encode.cc frame.cc kinds.cc msgpack_cursor.cc utf8.cc)
set(base_sources bytes.cc clock.cc status.cc)
list(TRANSFORM protocol_sources PREPEND ${repository}/sidecar/protocol/)
list(TRANSFORM base_sources PREPEND ${repository}/common/base/)

set(packages absl_status absl_statusor absl_strings absl_time absl_synchronization absl_flat_hash_map absl_span absl_hash)
string(REPLACE "absl_" "absl::" libraries "${packages}")
string(REPLACE ";" " " MILLSTREAM_REQUIRES "${packages}")

add_library(millstream STATIC ${sdk_sources} ${protocol_sources} ${base_sources})
add_library(Millstream::millstream ALIAS millstream)
target_compile_features(millstream PUBLIC cxx_std_20)
target_include_directories(millstream
  PUBLIC $<BUILD_INTERFACE:${CMAKE_CURRENT_SOURCE_DIR}/include> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>
  PRIVATE ${repository} ${MSGPACK_INCLUDE_DIR})
target_compile_definitions(millstream PRIVATE MSGPACK_NO_BOOST)
target_link_libraries(millstream PUBLIC ${libraries})
set_target_properties(millstream PROPERTIES POSITION_INDEPENDENT_CODE ON CXX_EXTENSIONS OFF)
if(NOT CMAKE_BUILD_TYPE)
  target_compile_options(millstream PRIVATE -O2)
endif()

set(config_dir ${CMAKE_INSTALL_LIBDIR}/cmake/Millstream)
configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/MillstreamConfig.cmake.in MillstreamConfig.cmake INSTALL_DESTINATION ${config_dir})
# Before 1.0 a minor version may break.
write_basic_package_version_file(MillstreamConfigVersion.cmake COMPATIBILITY SameMinorVersion)
configure_file(${CMAKE_CURRENT_LIST_DIR}/millstream.pc.in millstream.pc @ONLY)

install(TARGETS millstream EXPORT MillstreamTargets)
install(EXPORT MillstreamTargets NAMESPACE Millstream:: DESTINATION ${config_dir})
install(DIRECTORY include/millstream DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/MillstreamConfig.cmake ${CMAKE_CURRENT_BINARY_DIR}/MillstreamConfigVersion.cmake DESTINATION ${config_dir})
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/millstream.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
