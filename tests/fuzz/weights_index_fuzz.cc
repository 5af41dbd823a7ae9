// model.safetensors.index.json over two files: weights that open are those of the files
// that it names, each once, and can be read.

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "formats/weights_file.h"
#include "tests/fuzz/check.h"
#include "tests/fuzz/folder.h"
#include "tests/fuzz/safetensors_bytes.h"

using namespace stowage;
using stowage::testing::Check;
using stowage::testing::Folder;
using stowage::testing::SafetensorsBytes;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static Folder folder;
  [[maybe_unused]] static const bool written = [] {
    folder.Write("config.json", "{}");
    folder.Write("a", SafetensorsBytes({{"x", {2}}, {"y.z", {3, 2}}}));
    folder.Write("b", SafetensorsBytes({{"w", {1}}}));
    return true;
  }();
  folder.Write("model.safetensors.index.json",
               {reinterpret_cast<const char*>(data), size});
  const Result<WeightsFile> file = WeightsFile::Open(folder.path());
  if (!file.ok()) return 0;
  const size_t count = file->tensors().size();
  Check(count >= 1 && count <= 3);
  Check((file->Find("x") != nullptr) == (file->Find("y.z") != nullptr));
  for (const WeightTensor& tensor : file->tensors()) {
    Check(file->Find(tensor.name) == &tensor);
    std::vector<float> numbers(static_cast<size_t>(tensor.shape.num_elements()),
                               1);
    Check(file->ReadFloats(tensor, 0, numbers).ok());
    for (const float number : numbers) Check(number == 0);
  }
  return 0;
}
