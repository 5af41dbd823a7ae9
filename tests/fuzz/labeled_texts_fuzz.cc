// Rows with labels, after a letter that chooses the format: "a" JSON lines, "b" CSV, "c" TSV.
// What is read has a label for each row, that is found again.

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "tests/fuzz/check.h"
#include "text/labeled_texts.h"

using namespace stowage;
using stowage::testing::Check;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  constexpr TableFormat kFormats[] = {TableFormat::kJsonLines,
                                      TableFormat::kCsv, TableFormat::kTsv};
  const std::string_view text(reinterpret_cast<const char*>(data) + 1,
                              size - 1);
  const Result<LabeledTexts> texts =
      ReadLabeledTexts(text, "fuzz", kFormats[(data[0] + 2u) % 3]);
  if (!texts.ok()) {
    Check(texts.error().code == ErrorCode::kInvalidArgument ||
          texts.error().code == ErrorCode::kUnsupported);
    return 0;
  }
  Check(!texts->rows.empty());
  const auto names = LabelNames(*texts, "fuzz");
  if (!names.ok()) return 0;
  Check(names->size() >= 2 && names->size() <= texts->rows.size());
  const auto labels = FindLabels(*texts, *names, "fuzz");
  Check(labels.ok() && labels->size() == texts->rows.size());
  return 0;
}
