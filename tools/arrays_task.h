#ifndef STOWAGE_TOOLS_ARRAYS_TASK_H_
#define STOWAGE_TOOLS_ARRAYS_TASK_H_

// The data of an ONNX file's model: arrays of an .npz with the names of its inputs, whose
// first axis is the examples.
//
//   Result<std::unique_ptr<Task>> task = LoadArraysTask(
//       spec, {.order = ExampleOrder::kFile, .hold_out = 0.1, .seed = 1});

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "formats/array.h"
#include "tools/model_flags.h"
#include "tools/task.h"

namespace stowage::tools {

/// The examples of a batch: drawn by the seed and the step, or in the order of the file,
/// cyclically.
enum class ExampleOrder : uint8_t { kDrawn, kFile };

/// Parses "seed" or "none". Error kInvalidArgument: another text.
Result<ExampleOrder> ParseExampleOrder(std::string_view text);

/// The arrays of an .npz, renamed by `map`, "INPUT=ARRAY" each. Errors: those of ReadFile and
/// ParseNpz; kInvalidArgument for a missing array, and for names given twice.
Result<std::vector<NamedArray>> ReadArrays(const std::string& path,
                                           const std::vector<std::string>& map);

struct ArraysOptions {
  ExampleOrder order = ExampleOrder::kDrawn;
  /// The fraction of the examples in the validation set, from 0 up to 1: drawn by the seed, or
  /// the last ones with ExampleOrder::kFile. The number is lowered so that it divides into
  /// batches of at least half the training step's, or of exactly its size if the model takes
  /// no other.
  double hold_out = 0;
  uint64_t seed = 1;
  TaskShare share = {};
};

/// The task of the spec's model on its arrays. Integers are widened and floats converted to
/// the type of the input. Errors kInvalidArgument: an input without an array; arrays of other
/// shapes than the inputs, of different numbers of examples, or of fewer than a batch besides
/// the validation set; a validation set without an example, or smaller than a batch that the
/// model cannot change.
Result<std::unique_ptr<Task>> LoadArraysTask(const StepSpec& spec,
                                             const ArraysOptions& options);

}  // namespace stowage::tools

#endif  // STOWAGE_TOOLS_ARRAYS_TASK_H_
