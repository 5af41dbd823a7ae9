#include "tests/gpu/cudnn_property.h"

#include <doctest/doctest.h>

#include <cstdlib>
#include <string>

namespace stowage::testing {
namespace {

constexpr char kProperty[] = R"({"deviceVer":900,"multiProcessorCount":132})";

std::string Library() {
  setenv("FAKE_CUDNN_PROPERTY", kProperty, 1);
  return std::getenv("STOWAGE_FAKE_CUDNN");
}

TEST_CASE("the property of a device is what cuDNN says of it") {
  const auto property = ReadCudnnProperty(0, Library());
  REQUIRE_MESSAGE(property.ok(), property.error().message);
  CHECK(property->json == kProperty);
  CHECK(property->version == 91900);
  CHECK(property->library == Library());
}

TEST_CASE(
    "a device that is not there is an error that names library and call") {
  const auto property = ReadCudnnProperty(1, Library());
  REQUIRE_FALSE(property.ok());
  CHECK(property.error().code == ErrorCode::kDevice);
  CHECK(
      property.error().message ==
      "[gpu] cuDNN of " + Library() +
          ": BAD_PARAM from cudnnBackendFinalize of the property of device 1");
}

TEST_CASE("a cuDNN without such properties is an error that says since when") {
  setenv("FAKE_CUDNN_LACKS", "1", 1);
  const auto property = ReadCudnnProperty(0, Library());
  unsetenv("FAKE_CUDNN_LACKS");
  REQUIRE_FALSE(property.ok());
  CHECK(property.error().message.find("NOT_SUPPORTED from") !=
        std::string::npos);
  CHECK(property.error().message.find("which cuDNN has since 9.8") !=
        std::string::npos);
}

TEST_CASE("without the library, or with another, the error names the place") {
  const auto none = ReadCudnnProperty(0, "/nowhere/libcudnn.so.9");
  REQUIRE_FALSE(none.ok());
  CHECK(none.error().code == ErrorCode::kDevice);
  CHECK(none.error().message.find("/nowhere/libcudnn.so.9") !=
        std::string::npos);
  const auto other = ReadCudnnProperty(0, "libm.so.6");
  REQUIRE_FALSE(other.ok());
  CHECK(other.error().message.find("it lacks cudnnGetVersion") !=
        std::string::npos);
}

}  // namespace
}  // namespace stowage::testing
