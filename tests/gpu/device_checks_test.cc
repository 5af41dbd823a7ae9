#include "gpu/device_checks.h"

#include <doctest/doctest.h>

#include <cstdlib>
#include <utility>
#include <vector>

#include "base/strings.h"

namespace stowage::gpu {
namespace {

std::string MessageOf(const Status& status) {
  REQUIRE_FALSE(status.ok());
  CHECK(status.error().code == ErrorCode::kDevice);
  return status.error().message;
}

TEST_CASE("no driver, and one that is too old, are told with their versions") {
  CHECK(
      MessageOf(CheckDriver(0, 13000)) ==
      "[gpu] this machine has no NVIDIA driver; expected one for CUDA 13.0 or "
      "later; install it, or use the CPU");
  CHECK(MessageOf(CheckDriver(12040, 13010)) ==
        "[gpu] the driver is too old: it is for CUDA 12.4; this program needs "
        "one for 13.0 or later; install a newer driver");
  // A driver runs what was built for a later minor version of its own.
  CHECK(CheckDriver(13000, 13010).ok());
  CHECK(CheckDriver(14000, 13010).ok());
}

TEST_CASE("branches in graphs want a driver and a toolkit that have them") {
  CHECK(CheckBranches(12080, 12080).ok());
  CHECK(CheckBranches(13000, 12090).ok());
  for (const auto& [driver, runtime] :
       {std::pair{12060, 12080}, {13000, 12000}}) {
    const Status status = CheckBranches(driver, runtime);
    REQUIRE_FALSE(status.ok());
    CHECK(status.error().code == ErrorCode::kUnsupported);
    CHECK(status.error().message ==
          StrCat("[gpu] graphs hold branches since CUDA 12.8; the driver is "
                 "for CUDA ",
                 CudaVersionName(driver), ", and this program is built with ",
                 CudaVersionName(runtime)));
  }
}

TEST_CASE("a device that is not there is told with how many are") {
  CHECK(MessageOf(CheckDeviceNumber(0, 0))
            .find("no CUDA device that the driver shows") != std::string::npos);
  CHECK(MessageOf(CheckDeviceNumber(2, 2)) ==
        "[gpu] there is no device 2: this machine shows 2; expected 0 to 1");
  CHECK_FALSE(CheckDeviceNumber(-1, 2).ok());
  CHECK(CheckDeviceNumber(1, 2).ok());
}

TEST_CASE("an architecture before sm_80 is told with its capability") {
  CHECK(MessageOf(CheckArchitecture("Tesla T4", 7, 5)) ==
        "[gpu] Tesla T4 is of compute capability 7.5; the kernels need 8.0 or "
        "later (A100, RTX 30, H100, ...)");
  CHECK(CheckArchitecture("NVIDIA A100", 8, 0).ok());
  CHECK(CheckArchitecture("NVIDIA H200", 9, 0).ok());
}

TEST_CASE("shared memory beyond 48 KiB must be asked for, all of it counted") {
  constexpr size_t kMax = 227 << 10;
  const auto must_ask = [](size_t fixed, size_t dynamic) {
    const Result<bool> asks =
        MustAskForShared("attention", fixed, dynamic, kMax, "NVIDIA H200");
    REQUIRE_MESSAGE(asks.ok(), asks.error().message);
    return *asks;
  };
  CHECK_FALSE(must_ask(0, 0));
  CHECK_FALSE(must_ask(0, 49152));
  CHECK(must_ask(512, 49152));  // neither alone is too much
  CHECK(must_ask(0, 49153));
  CHECK(must_ask(512, kMax - 512));
  const Result<bool> asks =
      MustAskForShared("attention", 512, kMax, kMax, "NVIDIA H200");
  REQUIRE_FALSE(asks.ok());
  CHECK(asks.error().code == ErrorCode::kDevice);
  CHECK(asks.error().message ==
        "[gpu] attention needs 232960 bytes of shared memory a block; NVIDIA "
        "H200 has 232448");
}

TEST_CASE("f32 that the environment would round is refused") {
  CHECK(CheckFullFloats(nullptr).ok());
  CHECK(CheckFullFloats("0").ok());
  CHECK(CheckFullFloats("").ok());
  CHECK(MessageOf(CheckFullFloats("1")) ==
        "[gpu] NVIDIA_TF32_OVERRIDE is 1, by which cuBLASLt would round the "
        "factors of f32 products to 10 bits; expected it unset or 0; unset it");
}

TEST_CASE("another version of cuBLASLt is told with both versions") {
  CHECK(CheckMatMulLibrary(130100, 13, "x").ok());
  CHECK(CheckMatMulLibrary(120804, 12, "x").ok());
  CHECK(MessageOf(CheckMatMulLibrary(120804, 13, "/lib/libcublasLt.so")) ==
        "[gpu] /lib/libcublasLt.so is cuBLASLt of version 120804; this program "
        "needs version 13");
}

TEST_CASE("cuBLASLt is looked for where it was said to be, and nowhere else") {
  REQUIRE(setenv("STOWAGE_CUBLASLT", "/opt/lt/libcublasLt.so.13.9", 1) == 0);
  CHECK(PlacesOf(CublasLtLibrary(13), "") ==
        std::vector<std::string>{"/opt/lt/libcublasLt.so.13.9"});
  // An option goes before the variable; a folder is completed.
  CHECK(PlacesOf(CublasLtLibrary(13), "/usr") ==
        std::vector<std::string>{"/usr/libcublasLt.so.13"});
  const auto library = OpenCublasLt(13, "");
  REQUIRE_FALSE(library.ok());
  CHECK(library.error().code == ErrorCode::kDevice);
  CHECK(library.error().message ==
        "[gpu] libcublasLt.so.13 cannot be loaded; tried "
        "/opt/lt/libcublasLt.so.13.9; install cuBLAS (a CUDA toolkit, or "
        "NVIDIA's "
        "wheels in a Python environment), or name the file or its folder in "
        "STOWAGE_CUBLASLT");
  REQUIRE(unsetenv("STOWAGE_CUBLASLT") == 0);
  REQUIRE(setenv("CUDA_HOME", "/opt/cuda", 1) == 0);
  const auto places = PlacesOf(CublasLtLibrary(13), "");
  REQUIRE(places.size() >= 2);
  CHECK(places[0] == "libcublasLt.so.13");  // the loader's own search
  CHECK(places[1] == "/opt/cuda/lib64/libcublasLt.so.13");
  REQUIRE(unsetenv("CUDA_HOME") == 0);
}

}  // namespace
}  // namespace stowage::gpu
