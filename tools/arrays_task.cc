#include "tools/arrays_task.h"

#include <algorithm>
#include <cstring>
#include <iostream>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "base/result.h"
#include "base/strings.h"
#include "data/batching.h"
#include "formats/array.h"
#include "formats/npy.h"
#include "ir/graph.h"
#include "ir/tensor_type.h"
#include "tools/command.h"
#include "train/step_builder.h"

namespace stowage::tools {

namespace {

// The array with integers widened or floats converted to `dtype`; absent if one is of floats
// and the other of integers.
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
  size_t size = 0;  // bytes of an example
  Array batch = {};
};

// The upper bound of the values of an input that nodes read as labels or indices; absent if
// none does.
std::optional<int64_t> EndOfIndices(const Graph& graph, ValueId input) {
  std::optional<int64_t> end;
  for (const Node& node : graph.nodes()) {
    const bool is_label = node.op == OpKind::kCrossEntropy;
    if (!is_label && node.op != OpKind::kGather) continue;
    if (node.inputs[1] != input) continue;
    const Shape& shape = graph.value(node.inputs[0]).type.shape;
    const int64_t count = is_label ? shape.back() : shape[0];
    end = std::min(end.value_or(count), count);
  }
  return end;
}

// Disjoint sets of examples, by their indices in the arrays.
struct Parts {
  std::vector<int64_t> train, held_out;
  bool batch_changes = true;  // for an evaluation
};

class ArraysTask : public Task {
 public:
  ArraysTask(std::vector<Source> sources, Parts parts, int64_t batch,
             const ArraysOptions& options)
      : Task(options.share),
        sources_(std::move(sources)),
        parts_(std::move(parts)),
        part_(PartOfRank(batch, options.share.ranks, options.share.rank)),
        batch_(batch),
        options_(options) {}

  bool has_held_out() const override { return !parts_.held_out.empty(); }

  Status WriteBatch(Runner& train, int64_t step) override {
    SplitMix64 random(options_.seed, static_cast<uint64_t>(step));
    const auto count = std::ssize(parts_.train);
    for (int64_t i = 0; i < batch_; ++i) {
      const int64_t at = options_.order == ExampleOrder::kDrawn
                             ? random.Below(count)
                             : ((step - 1) * batch_ + i) % count;
      Take(parts_.train[static_cast<size_t>(at)], i);
    }
    return WriteTaken(train, part_);
  }

  int64_t EvaluationBatch(int64_t most) const override {
    return parts_.batch_changes
               ? DividingBatch(std::ssize(parts_.held_out), most)
               : batch_;
  }

  int64_t EvaluationExamples() const override {
    return std::ssize(parts_.held_out);
  }

  Status PrepareEvaluation(const SplitEvaluation& split, Runner* totals,
                           int64_t batch) override {
    joins_ = split.outputs;
    totals_.clear();
    for (const EvaluationTotal& total : split.totals) {
      const TensorType& type = TypeOf(split.graph, total.input);
      totals_[total.input] = {
          type, std::string(static_cast<size_t>(type.bytes()), '\0')};
    }
    const int rounds = split.totals.empty() ? 0 : split.totals.back().round + 1;
    const int64_t batches = EvaluationExamples() / batch;
    for (int round = 0; round < rounds; ++round) {
      std::map<std::string, std::vector<double>> sums;
      for (int64_t b = 0; b < batches; ++b) {
        STOWAGE_RETURN_IF_ERROR(RunOn(*totals, b, batch));
        for (const EvaluationTotal& total : split.totals) {
          if (total.round != round) continue;
          STOWAGE_ASSIGN_OR_RETURN(const std::vector<double> values,
                                   RealsOf(*totals, total.output));
          JoinPart(total.kind, 1 / static_cast<double>(batches), values,
                   &sums[total.input]);
        }
      }
      for (const auto& [name, values] : sums) {
        Array& total = totals_.at(name);
        total =
            IsFloat(total.type.dtype)
                ? ArrayOf(total.type.dtype, total.type.shape, values)
                : ArrayOf(total.type.dtype, total.type.shape,
                          std::vector<int64_t>(values.begin(), values.end()));
      }
    }
    return {};
  }

  Result<Evaluation> Evaluate(Runner& evaluate, int64_t batch,
                              WorkProgress& progress) override {
    const bool classifies = std::ranges::any_of(
        evaluate.graph().outputs(),
        [](const auto& output) { return output.name == "accuracy"; });
    const int64_t batches = std::ssize(parts_.held_out) / batch;
    const auto score = [&](int64_t b) -> Result<Score> {
      STOWAGE_RETURN_IF_ERROR(RunOn(evaluate, b, batch));
      STOWAGE_ASSIGN_OR_RETURN(const float loss, evaluate.ReadScalar("loss"));
      if (!classifies) return Score{loss, 0};
      STOWAGE_ASSIGN_OR_RETURN(const float right,
                               evaluate.ReadScalar("accuracy"));
      return Score{loss, right};
    };
    STOWAGE_ASSIGN_OR_RETURN(const std::vector<Score> scores,
                             ScoreAll(share_, batches, progress, score,
                                      [&] { return CountStep(evaluate); }));
    const auto joined = [&](std::string_view name, size_t which) {
      const auto found = joins_.find(name);
      const BatchKind kind =
          found == joins_.end() ? BatchKind::kMean : found->second.kind;
      std::vector<double> all;
      for (const Score& each : scores) {
        JoinPart(kind, 1 / static_cast<double>(batches), {&each[which], 1},
                 &all);
      }
      return all[0];
    };
    Evaluation whole{.loss = joined("loss", 0), .accuracy = std::nullopt};
    if (classifies) whole.accuracy = joined("accuracy", 1);
    return whole;
  }

  int64_t train_examples() const override { return std::ssize(parts_.train); }
  int64_t tokens_per_step(size_t) const override { return batch_; }
  std::string_view token_name() const override { return "examples"; }

 private:
  static const TensorType& TypeOf(const Graph& graph, std::string_view name) {
    return graph.value(*graph.Find(name)).type;
  }

  // Reads a value of the program, of floats or integers.
  static Result<std::vector<double>> RealsOf(const Runner& runner,
                                             std::string_view name) {
    const TensorType& type = TypeOf(runner.graph(), name);
    Array array{type, std::string(static_cast<size_t>(type.bytes()), '\0')};
    STOWAGE_RETURN_IF_ERROR(runner.ReadBytes(
        name, type.dtype, std::as_writable_bytes(std::span(array.bytes))));
    if (IsFloat(type.dtype)) return stowage::RealsOf(array);
    const std::vector<int64_t> whole = IntsOf(array);
    return std::vector<double>(whole.begin(), whole.end());
  }

  // Runs a program on part `b` of the validation set.
  Status RunOn(Runner& program, int64_t b, int64_t batch) {
    for (int64_t i = 0; i < batch; ++i) {
      Take(parts_.held_out[static_cast<size_t>(b * batch + i)], i);
    }
    STOWAGE_RETURN_IF_ERROR(WriteTaken(program, {.first = 0, .count = batch}));
    for (const auto& [name, total] : totals_) {
      if (!program.graph().Find(name)) continue;
      STOWAGE_RETURN_IF_ERROR(
          program.WriteBytes(name, total.type.dtype, total.data()));
    }
    return TakeStep(program);
  }

  // Copies an example to row i of a batch.
  void Take(int64_t example, int64_t i) {
    for (Source& source : sources_) {
      std::memcpy(
          source.batch.bytes.data() + static_cast<size_t>(i) * source.size,
          source.examples->bytes.data() +
              static_cast<size_t>(example) * source.size,
          source.size);
    }
  }

  Status WriteTaken(Runner& runner, const BatchPart& part) const {
    for (const Source& source : sources_) {
      if (!runner.graph().Find(source.name)) continue;  // no total reads it
      STOWAGE_RETURN_IF_ERROR(runner.WriteBytes(
          source.name, source.batch.type.dtype,
          source.batch.data().subspan(
              static_cast<size_t>(part.first) * source.size,
              static_cast<size_t>(part.count) * source.size)));
    }
    return {};
  }

  std::vector<Source> sources_;
  const Parts parts_;
  const BatchPart part_;  // this rank's part of a batch
  const int64_t batch_;
  const ArraysOptions options_;
  // How outputs of an evaluation's parts are combined, and its totals.
  std::map<std::string, EvaluationOutput, std::less<>> joins_;
  std::map<std::string, Array> totals_;
};

// Splits the examples into a training and a validation set (ArraysOptions::hold_out).
Result<Parts> PartsOf(const StepSpec& spec, int64_t examples,
                      const ArraysOptions& options) {
  const double fraction = options.hold_out;
  if (!(fraction >= 0 && fraction < 1)) {
    return Error{
        ErrorCode::kInvalidArgument,
        StrCat("[hold-out] ", fraction, " is no fraction from 0 up to 1")};
  }
  const int64_t batch = spec.training.batch;
  Parts parts;
  parts.train.resize(static_cast<size_t>(examples));
  std::iota(parts.train.begin(), parts.train.end(), 0);
  if (fraction == 0) return parts;
  auto held = static_cast<int64_t>(
      std::llround(fraction * static_cast<double>(examples)));
  const int64_t asked = held;
  const auto divides = [&] {
    return 2 * DividingBatch(held, batch) >= std::min(held, batch);
  };
  while (held > 0 && !divides()) --held;
  if (held > 0) {
    const int64_t size = DividingBatch(held, batch);
    parts.batch_changes = size == batch || spec.onnx_evaluation(size).ok();
    if (!parts.batch_changes) held = asked / batch * batch;
  }
  if (held < 1 || examples - held < batch) {
    return Error{
        ErrorCode::kInvalidArgument,
        StrCat("[hold-out] ", fraction, " of ", examples, " examples is ",
               asked, ", which leaves ", examples - asked,
               " to train on in batches of ", batch,
               "; expected at least a batch there, and here an example, or a "
               "batch where the file fixes its size")};
  }
  if (options.order == ExampleOrder::kDrawn) {
    parts.train = ShuffledOrder(examples, {options.seed, /*step=*/0});
  }
  const auto first = parts.train.end() - held;
  parts.held_out.assign(first, parts.train.end());
  parts.train.erase(first, parts.train.end());
  return parts;
}

std::string Names(const std::vector<NamedArray>& arrays) {
  std::string names;
  for (const NamedArray& array : arrays) {
    names += StrCat(names.empty() ? "" : ", ", Quoted(array.name), " ",
                    array.array.type.ToString());
  }
  return names.empty() ? "none" : names;
}

// The file's name of an input of the step: "lr" for "lr.2", which the step renames since it has
// an input "lr" itself.
std::string NameInFile(const Graph& graph, const std::string& name) {
  constexpr std::string_view kAgain = ".2";
  if (!name.ends_with(kAgain)) return name;
  const std::string before = name.substr(0, name.size() - kAgain.size());
  const bool is_own =
      IsNameOfStep(before) && (before != "labels" || !graph.Find(before));
  return is_own ? before : name;
}

// The examples for an input of that type, whose name in the file is `in_file`.
Result<Source> SourceOf(
    const std::string& name, const std::string& in_file, const TensorType& type,
    const std::shared_ptr<const std::vector<NamedArray>>& all) {
  const std::vector<NamedArray>& arrays = *all;
  const auto find = [&](const std::string& called) {
    return std::ranges::find(arrays, called, &NamedArray::name);
  };
  auto found = find(name);
  if (found == arrays.end()) found = find(in_file);
  if (found == arrays.end()) {
    return InvalidArgumentError(
        "[data] no array is called ", Quoted(name), ", as the input ",
        type.ToString(), " of the step is; there are ", Names(arrays),
        "; --input-map INPUT=ARRAY calls one otherwise");
  }
  const Shape& shape = found->array.type.shape;
  bool fits = shape.rank() == type.shape.rank() && shape.rank() > 0;
  for (int i = 1; fits && i < shape.rank(); ++i) {
    fits = shape[i] == type.shape[i];
  }
  if (!fits) {
    return InvalidArgumentError(
        "[data] the array ", Quoted(name), " is ", found->array.type.ToString(),
        ", the input ", type.ToString(),
        "; all dimensions but the first, the examples, must be "
        "the same");
  }
  Source source{.name = name};
  if (found->array.type.dtype == type.dtype) {
    source.examples = {all, &found->array};
  } else if (auto converted = As(type.dtype, found->array)) {
    source.examples = std::make_shared<const Array>(*std::move(converted));
  } else {
    return InvalidArgumentError("[data] the array ", Quoted(name),
                                " has elements of ",
                                DTypeName(found->array.type.dtype),
                                ", and the input ", DTypeName(type.dtype));
  }
  STOWAGE_RETURN_IF_ERROR(CheckFinite(found->array, type.dtype, name));
  source.size = static_cast<size_t>(type.bytes() / type.shape[0]);
  source.batch = {type, std::string(static_cast<size_t>(type.bytes()), '\0')};
  return source;
}

void ListUnreadArrays(const std::vector<NamedArray>& arrays,
                      const std::set<std::string>& read) {
  std::string unread;
  for (const NamedArray& each : arrays) {
    if (read.contains(each.name)) continue;
    unread += StrCat(unread.empty() ? "" : ", ", Quoted(each.name));
  }
  if (unread.empty()) return;
  std::cerr << WithoutControls(
                   StrCat("[data] no input reads these arrays: ", unread))
            << std::endl;
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
  // Indexed by the names in the file, so that two arrays may swap names.
  std::map<std::string, size_t> given;
  std::set<size_t> renamed;
  for (const std::string& text : map) {
    const size_t at = text.rfind('=');
    const std::string array =
        at == std::string::npos ? "" : text.substr(at + 1);
    const auto found = std::find_if(
        arrays.begin(), arrays.end(),
        [&](const NamedArray& each) { return each.name == array; });
    if (found == arrays.end()) {
      return InvalidArgumentError("[data] --input-map ", Quoted(text),
                                  " is not INPUT=ARRAY with an array of ",
                                  Quoted(path), ", which has ", Names(arrays));
    }
    const auto place = static_cast<size_t>(found - arrays.begin());
    if (!given.emplace(text.substr(0, at), place).second ||
        !renamed.insert(place).second) {
      return InvalidArgumentError(
          "[data] --input-map ", Quoted(text),
          " names an input or an array a second time; expected "
          "one array for each");
    }
  }
  std::vector<NamedArray> all;
  for (const auto& [input, place] : given) {
    all.push_back({input, std::move(arrays[place].array)});
  }
  for (size_t i = 0; i < arrays.size(); ++i) {
    if (renamed.contains(i) || given.contains(arrays[i].name)) continue;
    all.push_back(std::move(arrays[i]));
  }
  return all;
}

Result<std::unique_ptr<Task>> LoadArraysTask(const StepSpec& spec,
                                             const ArraysOptions& options) {
  const int64_t batch = spec.training.batch;
  STOWAGE_ASSIGN_OR_RETURN(const Graph graph, spec.training.model(batch));
  std::vector<Source> sources;
  std::optional<int64_t> examples;
  std::set<std::string> read;  // names of arrays that inputs read
  for (const ValueId id : graph.Leaves(Role::kInput)) {
    const ValueInfo& input = graph.value(id);
    const bool is_scalar = input.type.shape.rank() == 0;
    if (is_scalar && (input.name == "seed" || input.name == "step")) continue;
    STOWAGE_ASSIGN_OR_RETURN(Source source,
                             SourceOf(input.name, NameInFile(graph, input.name),
                                      input.type, spec.arrays));
    const int64_t count = source.examples->type.shape[0];
    if (input.type.shape[0] != batch || count < batch ||
        (examples && count != *examples)) {
      return InvalidArgumentError(
          "[data] the array ", Quoted(input.name), " has ", count,
          " examples, the input ", input.type.ToString(), ", for batches of ",
          batch, examples ? StrCat(" of ", *examples) : "",
          "; all need the same number, at least a batch");
    }
    if (const auto end = EndOfIndices(graph, id)) {
      STOWAGE_RETURN_IF_ERROR(CheckRange(*source.examples, *end, input.name));
    }
    examples = count;
    read.insert(input.name);
    read.insert(NameInFile(graph, input.name));
    sources.push_back(std::move(source));
  }
  if (options.share.rank == 0) ListUnreadArrays(*spec.arrays, read);
  STOWAGE_ASSIGN_OR_RETURN(Parts parts,
                           PartsOf(spec, examples.value_or(1), options));
  return std::unique_ptr<Task>(std::make_unique<ArraysTask>(
      std::move(sources), std::move(parts), batch, options));
}

}  // namespace stowage::tools
