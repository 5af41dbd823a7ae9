#ifndef STOWAGE_NN_GGUF_ROWS_H_
#define STOWAGE_NN_GGUF_ROWS_H_

// How GGUF files hold the rows of a param, where that is not as Hugging Face's model has
// them: in another order, or with a number added to each element.
//
//   const GgufRows rows = GgufRowsOf(model, "model.layers.0.self_attn.q_proj.weight");
//   rows.RowOfFile(1, /*rows=*/32)   // of heads of 8 whose pairs are neighbours: 2

#include <cstdint>
#include <string_view>

#include "nn/published_model.h"

namespace stowage {

struct GgufRows {
  /// Rows of a head, where the file has those that rope turns together as neighbours, and
  /// the model half a head apart; else 0.
  int64_t paired = 0;
  /// Rows of a head's query, where the model has of each head its query, key and value, and
  /// the file those of all heads side by side; else 0.
  int64_t head_by_head = 0;
  /// What the file's numbers have in addition to the model's.
  float added = 0;

  bool in_order() const { return paired == 0 && head_by_head == 0; }

  // Where a row of one, of so many, is in the other.
  int64_t RowOfFile(int64_t row_of_model, int64_t rows) const;
  int64_t RowOfModel(int64_t row_of_file, int64_t rows) const;
};

GgufRows GgufRowsOf(const PublishedModel& model, std::string_view param);

}  // namespace stowage

#endif  // STOWAGE_NN_GGUF_ROWS_H_
