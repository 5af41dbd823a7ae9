// Graphs in their text form: what parses is written as it was read.

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "ir/graph.h"
#include "ir/text.h"
#include "tests/fuzz/check.h"

using namespace stowage;
using stowage::testing::Check;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const Result<Graph> graph = ParseGraph(text);
  if (!graph.ok()) return 0;
  const Result<Graph> again = ParseGraph(ToText(*graph));
  Check(again.ok() && ToText(*again) == ToText(*graph));
  return 0;
}
