#ifndef STOWAGE_TOOLS_ARRAYS_TASK_H_
#define STOWAGE_TOOLS_ARRAYS_TASK_H_

// Provides the data of an ONNX file's model. The data is an .npz whose arrays have the names of
// the model's inputs. The first axis of each array enumerates the examples.
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

/// The order in which batches use the examples: drawn at random from the seed and the step, or in
/// the order of the file, cyclically.
enum class ExampleOrder : uint8_t { kDrawn, kFile };

/// Parses "seed" or "none". Returns kInvalidArgument for any other string.
Result<ExampleOrder> ParseExampleOrder(std::string_view text);

/// Returns the arrays of an .npz, renamed according to `map`, whose entries have the form
/// "INPUT=ARRAY". Propagates errors of ReadFile and ParseNpz. Returns kInvalidArgument if an array
/// is missing or a name is given twice.
Result<std::vector<NamedArray>> ReadArrays(const std::string& path,
                                           const std::vector<std::string>& map);

struct ArraysOptions {
  ExampleOrder order = ExampleOrder::kDrawn;
  /// The fraction of the examples in the validation set, from 0 up to 1. The seed selects them;
  /// with ExampleOrder::kFile they are the last ones. Their number is lowered until it is a
  /// multiple of a batch with at least half the examples of a training batch, or of the training
  /// batch if the batch of the model is fixed.
  double hold_out = 0;
  uint64_t seed = 1;
  TaskShare share = {};
};

/// Returns the task that trains the spec's model on its arrays. Integers are widened and floats are
/// converted to the type of the input. Returns kInvalidArgument if an input has no array, if the
/// shape of an array does not match its input, if arrays have different numbers of examples, if
/// the examples outside the validation set do not fill a batch, or if the validation set is empty
/// or smaller than the model's fixed batch.
Result<std::unique_ptr<Task>> LoadArraysTask(const StepSpec& spec,
                                             const ArraysOptions& options);

}  // namespace stowage::tools

#endif  // STOWAGE_TOOLS_ARRAYS_TASK_H_
