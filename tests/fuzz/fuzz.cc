#include "tests/fuzz/fuzz.h"

#include <cstdio>

namespace stowage::testing {
namespace {

std::map<std::string, FuzzTarget::Function>& Targets() {
  static std::map<std::string, FuzzTarget::Function> targets;
  return targets;
}

// The target that FUZZ names. Ends the program if there is none.
FuzzTarget::Function Selected() {
  const char* const name = std::getenv("FUZZ");
  const auto found = Targets().find(name == nullptr ? "" : name);
  if (found != Targets().end()) return found->second;
  std::fprintf(stderr, "[fuzz] FUZZ is \"%s\"; expected one of:\n",
               name == nullptr ? "" : name);
  for (const auto& [target, function] : Targets()) {
    std::fprintf(stderr, "  %s\n", target.c_str());
  }
  std::exit(2);
}

}  // namespace

FuzzTarget::FuzzTarget(const char* name, Function function) {
  Targets()[name] = function;
}

}  // namespace stowage::testing

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const auto target = stowage::testing::Selected();
  return target(data, size);
}
