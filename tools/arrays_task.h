#ifndef STOWAGE_TOOLS_ARRAYS_TASK_H_
#define STOWAGE_TOOLS_ARRAYS_TASK_H_

// Provides the training and validation data for a model from an ONNX file. The data is an .npz
// whose arrays have the names of the model's inputs. The first axis of each array enumerates the
// examples.
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

/// The examples of a batch: drawn at random, determined by the seed and the step (kDrawn), or the
/// next ones in the order of the file, cyclically (kFile).
enum class ExampleOrder : uint8_t { kDrawn, kFile };

/// Returns kDrawn for "seed" and kFile for "none". Returns kInvalidArgument for any other string.
Result<ExampleOrder> ParseExampleOrder(std::string_view text);

/// Returns the arrays of the .npz at `path`. An entry "INPUT=ARRAY" of `map` renames the array
/// ARRAY to INPUT, and drops an array that was called INPUT. Propagates errors of ReadFile and
/// ParseNpz. Returns kInvalidArgument if an array of `map` does not exist, or if an input or array
/// occurs twice in it.
Result<std::vector<NamedArray>> ReadArrays(const std::string& path,
                                           const std::vector<std::string>& map);

struct ArraysOptions {
  ExampleOrder order = ExampleOrder::kDrawn;
  /// The fraction of the examples that form the validation set, in [0, 1). The seed selects these
  /// examples, or they are the last ones with ExampleOrder::kFile. Their number is reduced until it
  /// is a multiple of some batch size between half the training batch and the training batch. If
  /// the model has a fixed batch, the number is rounded down to a multiple of the training batch.
  double hold_out = 0;
  uint64_t seed = 1;
  TaskShare share = {};
};

/// Returns the task that trains the model of `spec` on spec.arrays. Integers are converted to i64
/// and floats to the type of the input, if the types differ. Returns kInvalidArgument if an input
/// has no array, if the shape or type of an array does not match its input, if a value is
/// non-finite or an index out of range, if arrays have different numbers of examples, or if the
/// training set does not fill a batch. With a `hold_out` above 0, also returns kInvalidArgument if
/// the validation set is empty or smaller than the model's fixed batch.
Result<std::unique_ptr<Task>> LoadArraysTask(const StepSpec& spec,
                                             const ArraysOptions& options);

}  // namespace stowage::tools

#endif  // STOWAGE_TOOLS_ARRAYS_TASK_H_
