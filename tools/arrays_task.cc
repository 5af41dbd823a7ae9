#include "tools/arrays_task.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

#include "base/strings.h"
#include "formats/npz.h"
#include "formats/numbers.h"
#include "ir/dtype.h"
#include "ir/graph.h"
#include "nn/random.h"
#include "tools/command.h"

namespace stowage::tools {
namespace {

Error Wrong(std::string message) {
  return {ErrorCode::kInvalidArgument, StrCat("[data] ", message)};
}

// As elements of that type: of wider whole numbers, or of other reals; absent where the
// two are not of one kind.
std::optional<Array> As(DType dtype, const Array& array) {
  const DType from = array.type.dtype;
  if (IsFloat(from) && IsFloat(dtype)) {
    return ArrayOf(dtype, array.type.shape, RealsOf(array));
  }
  if (!IsFloat(from) && dtype == DType::kI64) {
    return ArrayOf(dtype, array.type.shape, IntsOf(array));
  }
  return {};
}

// An input of the step, and all examples for it.
struct Source {
  std::string name = {};
  std::shared_ptr<const Array> examples = {};
  size_t size = 0;  // bytes of one
  Array batch = {};
};

class ArraysTask : public Task {
 public:
  ArraysTask(std::vector<Source> sources, bool reads_seed, int64_t examples,
             int64_t batch, ExampleOrder order, uint64_t seed)
      : sources_(std::move(sources)),
        reads_seed_(reads_seed),
        examples_(examples),
        batch_(batch),
        order_(order),
        seed_(seed) {}

  bool has_held_out() const override { return false; }

  Status WriteBatch(Runner& train, int64_t step) override {
    SplitMix64 random(seed_, static_cast<uint64_t>(step));
    for (int64_t i = 0; i < batch_; ++i) {
      const int64_t example = order_ == ExampleOrder::kDrawn
                                  ? random.Below(examples_)
                                  : ((step - 1) * batch_ + i) % examples_;
      for (Source& source : sources_) {
        std::memcpy(
            source.batch.bytes.data() + static_cast<size_t>(i) * source.size,
            source.examples->bytes.data() +
                static_cast<size_t>(example) * source.size,
            source.size);
      }
    }
    for (const Source& source : sources_) {
      STOWAGE_RETURN_IF_ERROR(train.WriteBytes(
          source.name, source.batch.type.dtype, source.batch.data()));
    }
    if (!reads_seed_) return {};
    return train.Write("seed", static_cast<int64_t>(seed_));
  }

  int64_t EvaluationBatch(int64_t most) const override { return most; }
  Result<Evaluation> Evaluate(Runner&, int64_t, WorkProgress&) override {
    return Wrong("nothing is held out of arrays");
  }

  int64_t tokens_per_step(size_t) const override { return batch_; }
  std::string_view token_name() const override { return "examples"; }

 private:
  std::vector<Source> sources_;
  const bool reads_seed_;  // of dropouts
  const int64_t examples_, batch_;
  const ExampleOrder order_;
  const uint64_t seed_;
};

std::string Names(const std::vector<NamedArray>& arrays) {
  std::string names;
  for (const NamedArray& array : arrays) {
    names += StrCat(names.empty() ? "" : ", ", Quoted(array.name), " ",
                    array.array.type.ToString());
  }
  return names.empty() ? "none" : names;
}

// The examples for an input of that type.
Result<Source> SourceOf(
    const std::string& name, const TensorType& type,
    const std::shared_ptr<const std::vector<NamedArray>>& all) {
  const std::vector<NamedArray>& arrays = *all;
  const auto found =
      std::find_if(arrays.begin(), arrays.end(),
                   [&](const NamedArray& array) { return array.name == name; });
  if (found == arrays.end()) {
    return Wrong(StrCat("no array is called ", Quoted(name), ", as the input ",
                        type.ToString(), " of the step is; there are ",
                        Names(arrays),
                        "; --input-map INPUT=ARRAY calls one otherwise"));
  }
  const Shape& shape = found->array.type.shape;
  bool fits = shape.rank() == type.shape.rank() && shape.rank() > 0;
  for (int i = 1; fits && i < shape.rank(); ++i) {
    fits = shape[i] == type.shape[i];
  }
  if (!fits) {
    return Wrong(StrCat("the array ", Quoted(name), " is ",
                        found->array.type.ToString(), ", the input ",
                        type.ToString(),
                        "; all dimensions but the first, the examples, must be "
                        "the same"));
  }
  Source source{.name = name};
  if (found->array.type.dtype == type.dtype) {
    source.examples = {all, &found->array};
  } else if (auto converted = As(type.dtype, found->array)) {
    source.examples = std::make_shared<const Array>(*std::move(converted));
  } else {
    return Wrong(StrCat("the array ", Quoted(name), " has elements of ",
                        DTypeName(found->array.type.dtype), ", and the input ",
                        DTypeName(type.dtype)));
  }
  source.size = static_cast<size_t>(type.bytes() / type.shape[0]);
  source.batch = {type, std::string(static_cast<size_t>(type.bytes()), '\0')};
  return source;
}

}  // namespace

Result<ExampleOrder> ParseExampleOrder(std::string_view text) {
  if (text == "seed") return ExampleOrder::kDrawn;
  if (text == "none") return ExampleOrder::kFile;
  return Error{ErrorCode::kInvalidArgument,
               StrCat("[shuffle] there is no choice ", Quoted(text),
                      "; expected seed or none")};
}

Result<std::vector<NamedArray>> ReadArrays(
    const std::string& path, const std::vector<std::string>& map) {
  STOWAGE_ASSIGN_OR_RETURN(const std::string bytes, ReadFile(path));
  STOWAGE_ASSIGN_OR_RETURN(std::vector<NamedArray> arrays,
                           ParseNpz(bytes, path));
  for (const std::string& text : map) {
    const size_t at = text.rfind('=');
    const std::string array =
        at == std::string::npos ? "" : text.substr(at + 1);
    const auto found = std::find_if(
        arrays.begin(), arrays.end(),
        [&](const NamedArray& each) { return each.name == array; });
    if (found == arrays.end()) {
      return Wrong(StrCat("--input-map ", Quoted(text),
                          " is not INPUT=ARRAY with an array of ", Quoted(path),
                          ", which has ", Names(arrays)));
    }
    found->name = text.substr(0, at);
  }
  return arrays;
}

Result<std::unique_ptr<Task>> LoadArraysTask(const StepSpec& spec,
                                             ExampleOrder order,
                                             uint64_t seed) {
  const int64_t batch = spec.training.batch;
  STOWAGE_ASSIGN_OR_RETURN(const Graph graph, spec.training.model(batch));
  std::vector<Source> sources;
  bool reads_seed = false;
  std::optional<int64_t> examples;
  for (const ValueId id : graph.Leaves(Role::kInput)) {
    const ValueInfo& input = graph.value(id);
    const bool is_scalar = input.type.shape.rank() == 0;
    if (is_scalar && input.name == "seed") reads_seed = true;
    if (is_scalar && (input.name == "seed" || input.name == "step")) continue;
    STOWAGE_ASSIGN_OR_RETURN(Source source,
                             SourceOf(input.name, input.type, spec.arrays));
    const int64_t count = source.examples->type.shape[0];
    if (input.type.shape[0] != batch || count < batch ||
        (examples && count != *examples)) {
      return Wrong(StrCat("the array ", Quoted(input.name), " has ", count,
                          " examples, the input ", input.type.ToString(),
                          ", for batches of ", batch,
                          examples ? StrCat(" of ", *examples) : "",
                          "; all need the same number, at least a batch"));
    }
    examples = count;
    sources.push_back(std::move(source));
  }
  return std::unique_ptr<Task>(
      std::make_unique<ArraysTask>(std::move(sources), reads_seed,
                                   examples.value_or(1), batch, order, seed));
}

}  // namespace stowage::tools
