// NPZ and NPY files: what parses is written and parses again, equal.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "formats/npy.h"
#include "tests/fuzz/check.h"

using namespace stowage;
using stowage::testing::Check;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  if (const Result<Array> array = ParseNpy(bytes, "fuzz"); array.ok()) {
    const Result<std::string> written = NpyBytes(*array);
    Check(written.ok());
    const Result<Array> again = ParseNpy(*written, "fuzz");
    Check(again.ok() && *again == *array);
  }
  const Result<std::vector<NamedArray>> arrays = ParseNpz(bytes, "fuzz");
  if (!arrays.ok()) return 0;
  const Result<std::string> written = NpzBytes(*arrays);
  Check(written.ok());
  const Result<std::vector<NamedArray>> again = ParseNpz(*written, "fuzz");
  Check(again.ok() && again->size() == arrays->size());
  for (size_t i = 0; i < arrays->size(); ++i) {
    Check((*again)[i].name == (*arrays)[i].name);
    Check((*again)[i].array == (*arrays)[i].array);
  }
  return 0;
}
