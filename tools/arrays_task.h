#ifndef STOWAGE_TOOLS_ARRAYS_TASK_H_
#define STOWAGE_TOOLS_ARRAYS_TASK_H_

// What a model of an ONNX file learns from and is judged by: arrays that are called as
// its inputs, an example after the other along their first axis.
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

/// Which examples a batch takes: drawn by the seed and the step, or one after the other
/// as the file has them, and from its first again.
enum class ExampleOrder : uint8_t { kDrawn, kFile };

/// "seed" or "none". Error: any other text.
Result<ExampleOrder> ParseExampleOrder(std::string_view text);

/// The arrays of an .npz, called as `map` says: "INPUT=ARRAY" each. Errors: those of
/// ReadFile and ParseNpz; an array that is not there.
Result<std::vector<NamedArray>> ReadArrays(const std::string& path,
                                           const std::vector<std::string>& map);

struct ArraysOptions {
  ExampleOrder order = ExampleOrder::kDrawn;
  /// Which part of the examples the model is judged by and not trained on, from 0 up to
  /// 1: examples that the seed draws, or the last ones where they go in their order. Of
  /// a number that no batches of one size make up, a few more are trained on: what is
  /// left divides into batches of at least half the training step's, or of its very
  /// size where the model takes no other.
  double hold_out = 0;
  uint64_t seed = 1;
  TaskShare share = {};
};

/// The task of the spec's model on its arrays. Whole numbers are widened and reals
/// converted to what an input takes. Errors, kInvalidArgument: an input without an
/// array, arrays of other shapes than the inputs, or of different numbers of examples,
/// or fewer than a batch beside what is held out; a part that is held out and is no
/// example, or less than the batch that the model cannot change.
Result<std::unique_ptr<Task>> LoadArraysTask(const StepSpec& spec,
                                             const ArraysOptions& options);

}  // namespace stowage::tools

#endif  // STOWAGE_TOOLS_ARRAYS_TASK_H_
