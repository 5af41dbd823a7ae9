#include "tests/gpu/ptx/cuda_registry.h"

#include <map>

#include "base/check.h"

namespace stowage::testing::ptx {
namespace {

std::map<const void*, std::string>& Names() {
  static auto& names = *new std::map<const void*, std::string>;
  return names;
}

}  // namespace

std::string NameOfKernel(const void* function) {
  const auto found = Names().find(function);
  return found == Names().end() ? std::string() : found->second;
}

}  // namespace stowage::testing::ptx

// As crt/host_runtime.h of the toolkit declares them; pointers that are not looked
// at are void*.
extern "C" {

void** __cudaRegisterFatBinary(void*) {
  static void* handle = nullptr;
  return &handle;
}
void __cudaRegisterFatBinaryEnd(void**) {}
void __cudaUnregisterFatBinary(void**) {}
void __cudaRegisterFunction(void**, const char* function, char*,
                            const char* name, int, void*, void*, void*, void*,
                            int*) {
  stowage::testing::ptx::Names()[function] = name;
}

// Called by the functions of the host that launch kernels; ours are not called.
unsigned __cudaPopCallConfiguration(void*, void*, void*, void*) {
  STOWAGE_CHECK(!"a kernel was called as a function");
  return 0;
}
int __cudaGetKernel(void*, const void*) {
  STOWAGE_CHECK(!"a kernel was called as a function");
  return 0;
}
int __cudaLaunchKernel() {
  STOWAGE_CHECK(!"a kernel was called as a function");
  return 0;
}

}  // extern "C"
