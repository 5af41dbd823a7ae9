#include "nn/gguf_rows.h"

#include <variant>

#include "base/strings.h"
#include "nn/llama_families.h"

namespace stowage {

int64_t GgufRows::RowOfFile(int64_t row, int64_t rows) const {
  if (paired > 0) {
    const int64_t half = row % paired / (paired / 2);
    return row / paired * paired + 2 * (row % (paired / 2)) + half;
  }
  if (head_by_head > 0) {
    const int64_t head = row / (3 * head_by_head);
    const int64_t part = row / head_by_head % 3;
    return part * (rows / 3) + head * head_by_head + row % head_by_head;
  }
  return row;
}

int64_t GgufRows::RowOfModel(int64_t row, int64_t rows) const {
  if (paired > 0) {
    const int64_t within = row % paired;
    return row - within + within % 2 * (paired / 2) + within / 2;
  }
  if (head_by_head > 0) {
    const int64_t part = row / (rows / 3);
    const int64_t head = row % (rows / 3) / head_by_head;
    return (3 * head + part) * head_by_head + row % head_by_head;
  }
  return row;
}

GgufRows GgufRowsOf(const PublishedModel& model, std::string_view param) {
  const auto* const llama = std::get_if<LlamaConfig>(&model.config);
  if (llama == nullptr) return {};
  const LlamaFamily* const family = FindLlamaFamily(model.family);
  const auto is_of = [&](std::string_view layer) {
    return param.find(StrCat(".", layer, ".")) != param.npos;
  };
  GgufRows rows;
  if (family != nullptr && family->paired_in_gguf &&
      (is_of("q_proj") || is_of("k_proj"))) {
    rows.paired = HeadSize(*llama);
  }
  if (llama->qkv == QkvLayers::kHeadByHead && is_of(llama->names.qkv)) {
    rows.head_by_head = HeadSize(*llama);
  }
  if (llama->norms_add_one && param.ends_with("norm.weight")) rows.added = 1;
  return rows;
}

}  // namespace stowage
