#include "tools/onnx_flags.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <iostream>
#include <iterator>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "autodiff/backward.h"
#include "autodiff/optimizer.h"
#include "base/result.h"
#include "base/strings.h"
#include "data/batching.h"
#include "formats/array.h"
#include "formats/npy.h"
#include "ir/graph.h"
#include "ir/tensor_type.h"
#include "report/text.h"
#include "tools/command.h"
#include "tools/flags.h"
#include "train/fine_tuning.h"
#include "train/step_builder.h"

namespace stowage::tools {

namespace {

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

// What the numbers of an input stay below, by the nodes that read it as labels or as
// indices; absent where none does.
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

// Examples by their places in the arrays, in parts that do not meet.
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

  // A value of the program, of reals or of whole numbers.
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

  // Runs a program on part `b` of what is held out.
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

  // Copies an example to place i of a batch.
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
  const BatchPart part_;  // of a batch, that this rank takes
  const int64_t batch_;
  const ArraysOptions options_;
  // Of an evaluation: how outputs of its parts are put together, and its totals.
  std::map<std::string, EvaluationOutput, std::less<>> joins_;
  std::map<std::string, Array> totals_;
};

// Which of so many examples are held out; see ArraysOptions.
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
    SplitMix64 random(options.seed, /*step=*/0);
    for (int64_t i = examples - 1; i > 0; --i) {
      std::swap(parts.train[static_cast<size_t>(i)],
                parts.train[static_cast<size_t>(random.Below(i + 1))]);
    }
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

// What the file calls an input of the step: "lr", where that is "lr.2" since the step has an
// input "lr" of its own.
std::string NameInFile(const Graph& graph, const std::string& name) {
  constexpr std::string_view kAgain = ".2";
  if (!name.ends_with(kAgain)) return name;
  const std::string before = name.substr(0, name.size() - kAgain.size());
  const bool is_own =
      IsNameOfStep(before) && (before != "labels" || !graph.Find(before));
  return is_own ? before : name;
}

// The examples for an input of that type, which the file calls `in_file`.
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
  // By what the file calls them, so that two arrays may change names.
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
  std::set<std::string> read;  // names that inputs have
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

namespace {

Result<int64_t> ParseSize(std::string_view option, std::string_view text) {
  int64_t size = 0;
  const char* const end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, size);
  if (parsed.ec != std::errc() || parsed.ptr != end || size < 1) {
    return Error{
        ErrorCode::kInvalidArgument,
        StrCat("[", option, "] ", Quoted(text), " is no size of at least 1")};
  }
  return size;
}

// NAME=VALUE; names in files may hold any sign, so the last "=" counts.
Result<std::pair<std::string, std::string>> ParsePair(std::string_view option,
                                                      std::string_view text) {
  const size_t at = text.rfind('=');
  if (at == std::string_view::npos || at == 0) {
    return Error{ErrorCode::kInvalidArgument,
                 StrCat("[", option, "] ", Quoted(text),
                        " is not NAME=", option == "dim" ? "N" : "N,N,...")};
  }
  return std::pair(std::string(text.substr(0, at)),
                   std::string(text.substr(at + 1)));
}

Result<std::vector<int64_t>> ParseDims(std::string_view text) {
  std::vector<int64_t> dims;
  while (!text.empty()) {
    const size_t comma = text.find(',');
    STOWAGE_ASSIGN_OR_RETURN(const int64_t dim,
                             ParseSize("shape", text.substr(0, comma)));
    dims.push_back(dim);
    text = comma == std::string_view::npos ? "" : text.substr(comma + 1);
  }
  return dims;
}

}  // namespace

void AddOnnxOptions(Options& options, OnnxFlags* flags) {
  options.Group("model");
  options.Add("--onnx", &flags->file,
              "The model of this ONNX file, instead of a --model");
  options.AddEach(
      "--dim", &flags->dims,
      "NAME=N: the size of a dimension that the file has by name; may be "
      "repeated");
  options.AddEach(
      "--shape", &flags->shapes,
      "INPUT=N,N,...: the whole shape of an input; may be repeated");
  options.Add("--loss", &flags->loss,
              "What an ONNX file's model is trained for: cross_entropy, mse "
              "or bce of its first output, or of another as "
              "cross_entropy:OUTPUT; or an output that is a loss, by name; "
              "without it, a plan is of a pass over the inputs");
  options.AddEach(
      "--freeze", &flags->freeze,
      "Params that are not trained, a pattern of names; may be repeated");
  options.AddEach(
      "--trainable", &flags->trainable,
      "Tensors of an ONNX file that are trained although they look like "
      "constants (--list-params), a pattern of names; may be repeated");
}

void AddInputMapOption(Options& options, ArrayFlags* flags) {
  options.AddEach("--input-map", &flags->input_map,
                  "INPUT=ARRAY: which array of an .npz an ONNX file's input "
                  "takes, if it is not called so; may be repeated");
}

namespace {

Error GivenTwice(std::string_view option, const std::string& name) {
  return InvalidArgumentError("[", option, "] ", Quoted(name),
                              " is given twice; give it once");
}

}  // namespace

Result<OnnxStep> ReadOnnxStep(const OnnxFlags& onnx, const ModelFlags& flags) {
  STOWAGE_ASSIGN_OR_RETURN(OnnxModel model, ReadOnnx(onnx.file));
  OnnxBuildOptions options{.trainable = onnx.trainable,
                           .stand_ins = onnx.stand_ins};
  for (const std::string& text : onnx.dims) {
    STOWAGE_ASSIGN_OR_RETURN(const auto dim, ParsePair("dim", text));
    if (options.dims.contains(dim.first)) return GivenTwice("dim", dim.first);
    STOWAGE_ASSIGN_OR_RETURN(options.dims[dim.first],
                             ParseSize("dim", dim.second));
  }
  for (const std::string& text : onnx.shapes) {
    STOWAGE_ASSIGN_OR_RETURN(const auto shape, ParsePair("shape", text));
    if (options.shapes.contains(shape.first)) {
      return GivenTwice("shape", shape.first);
    }
    STOWAGE_ASSIGN_OR_RETURN(options.shapes[shape.first],
                             ParseDims(shape.second));
  }
  if (!onnx.loss.empty()) options.loss = ParseOnnxLoss(onnx.loss);
  return SizeOnnxStep(std::move(model), std::move(options), flags.batch);
}

namespace {

// Those of a graph with a loss that no gradient reaches. None where the graph is none to
// differentiate, which whoever does will say.
std::set<std::string> UnreachedParams(const Graph& graph) {
  const auto names = FindUnreachedParams(graph, "loss");
  if (!names.ok()) return {};
  return {names->begin(), names->end()};
}

}  // namespace

Result<std::string> ListParams(const OnnxStep& step, const OnnxFlags& onnx,
                               bool json) {
  STOWAGE_ASSIGN_OR_RETURN(const Graph graph, step.Build(step.batch));
  const std::set<std::string> unreached =
      step.options.loss ? UnreachedParams(graph) : std::set<std::string>();
  const auto frozen_by = [&](const std::string& name) -> const std::string* {
    const auto found = std::ranges::find_if(
        onnx.freeze,
        [&](const std::string& pattern) { return GlobMatches(pattern, name); });
    return found == onnx.freeze.end() ? nullptr : &*found;
  };
  const auto become = [&](const OnnxTensor& tensor)
      -> std::pair<std::string_view, std::string> {
    const std::optional<ValueId> id = graph.Find(tensor.name);
    const Role role = id ? graph.value(*id).role : Role::kConstant;
    if (role == Role::kState) return {"state", "the step writes it"};
    if (role != Role::kParam) {
      if (!tensor.constant.empty()) return {"constant", tensor.constant};
      return {"left out", step.options.loss ? "the loss does not read it"
                                            : "no output reads it"};
    }
    if (!step.options.loss) return {"read", ""};
    if (const std::string* const pattern = frozen_by(tensor.name)) {
      return {"frozen", StrCat("--freeze ", *pattern)};
    }
    if (unreached.contains(tensor.name)) {
      return {"frozen", "no gradient reaches it"};
    }
    return {"trained", ""};
  };
  std::string text = "becomes   type                    name\n";
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  for (const OnnxTensor& tensor : step.model.tensors()) {
    const auto [becomes, why] = become(tensor);
    const std::string type = tensor.type.ToString();
    text += StrCat(PadRight(std::string(becomes), 10), PadRight(type, 24),
                   WithoutControls(tensor.name), why.empty() ? "" : ": ", why,
                   "\n");
    rows.push_back({{"name", tensor.name},
                    {"type", type},
                    {"becomes", becomes},
                    {"why", why}});
  }
  if (!json) return text;
  return nlohmann::ordered_json{{"params", std::move(rows)}}.dump(
             2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) +
         "\n";
}

Result<TrainingSpec> ReadOnnxTraining(const OnnxStep& step,
                                      const OnnxFlags& onnx,
                                      const ModelFlags& flags) {
  ModelFlags named = flags;
  if (named.optimizer.empty()) named.optimizer = "adamw";
  STOWAGE_ASSIGN_OR_RETURN(TrainingSpec training,
                           ReadTrainingFlags(named, {}, step.batch));
  STOWAGE_ASSIGN_OR_RETURN(const std::optional<LoraRules> lora,
                           ReadLora(flags));
  training.model = WithSmoothing(
      flags.optimization,
      WithAdapters([step](int64_t examples) { return step.Build(examples); },
                   lora));
  for (const std::string& pattern : onnx.freeze) {
    training.training.groups.push_back({.pattern = pattern, .frozen = true});
  }
  STOWAGE_ASSIGN_OR_RETURN(const Graph graph, training.model(step.batch));
  for (const std::string& name : UnreachedParams(graph)) {
    training.training.groups.push_back({.pattern = name, .frozen = true});
  }
  if (lora) {
    if (!onnx.freeze.empty()) {
      return Error{ErrorCode::kInvalidArgument,
                   "[lora] --lora-rank freezes all but its adapters; leave "
                   "--freeze away"};
    }
    training.training.groups = LoraGroups();
  }
  STOWAGE_RETURN_IF_ERROR(SetNoDecay(flags.optimization, &training));
  return training;
}

namespace {

// As many examples as there are, up to so many, where neither the file nor a flag says.
constexpr int64_t kUsualBatch = 32;

const Array* FindLabels(const std::vector<NamedArray>& arrays) {
  for (const NamedArray& array : arrays) {
    if (array.name == "labels" && array.array.type.shape.rank() > 0) {
      return &array.array;
    }
  }
  return nullptr;
}

}  // namespace

Result<StepSpec> ReadOnnxRun(const OnnxFlags& onnx, const ArrayFlags& arrays,
                             const RunFlags& flags) {
  if (onnx.loss.empty()) {
    return Error{
        ErrorCode::kInvalidArgument,
        "[train] what the file's model is trained for is not told; give "
        "--loss cross_entropy, mse or bce, or an output that is a loss"};
  }
  STOWAGE_ASSIGN_OR_RETURN(std::vector<NamedArray> read,
                           ReadArrays(flags.data, arrays.input_map));
  STOWAGE_ASSIGN_OR_RETURN(OnnxStep step, ReadOnnxStep(onnx, flags.model));
  const Array* const labels = FindLabels(read);
  const bool is_open = !step.batch_symbol.empty() && !flags.model.batch &&
                       !step.options.dims.contains(step.batch_symbol);
  if (is_open && labels) {
    step.batch = std::min(labels->type.shape[0], kUsualBatch);
  }
  if (labels && step.options.loss->kind == OnnxLossKind::kCrossEntropy) {
    const Shape& shape = labels->type.shape;
    step.options.loss->labels_shape =
        std::vector<int64_t>(shape.begin(), shape.end());
    step.labels_follow_batch = true;
  }
  StepSpec spec;
  STOWAGE_ASSIGN_OR_RETURN(spec.training,
                           ReadOnnxTraining(step, onnx, flags.model));
  spec.onnx = std::make_shared<const OnnxModel>(step.model);
  STOWAGE_ASSIGN_OR_RETURN(const std::optional<LoraRules> lora,
                           ReadLora(flags.model));
  spec.onnx_evaluation = WithAdapters(
      [step](int64_t examples) {
        return step.Build(examples, /*evaluation=*/true);
      },
      lora);
  spec.arrays =
      std::make_shared<const std::vector<NamedArray>>(std::move(read));
  spec.info.name = spec.onnx->name();  // which lives as long as the model
  TrainingDefaults& defaults = spec.info.training;
  const Optimizer& optimizer = spec.training.training.optimizer;
  defaults.optimizer = OptimizerName(optimizer);
  defaults.schedule.peak = DefaultLearningRate(optimizer);
  defaults.steps = 100;
  spec.options.batch = step.batch;
  const Result<Graph> graph = spec.training.model(step.batch);
  if (!graph.ok()) return graph.error();
  return spec;
}

Result<StepSpec> ReadStep(std::string_view command, const RunFlags& flags,
                          const OnnxFlags& onnx, const ArrayFlags& arrays) {
  const bool is_file = !onnx.file.empty();
  if (is_file == !flags.model.model.empty()) {
    return Error{ErrorCode::kInvalidArgument,
                 StrCat("[", command, "] ",
                        is_file ? "both --model and --onnx are given; give one"
                                : "there is no model; give --model or --onnx")};
  }
  return is_file ? ReadOnnxRun(onnx, arrays, flags) : ReadRunFlags(flags);
}

Status WriteOnnxWeights(const StepSpec& spec, Runner& step) {
  if (!spec.onnx) return {};
  return spec.onnx->ForEachWeight(step.graph(), [&](const NamedArray& weight) {
    return step.WriteBytes(weight.name, weight.array.type.dtype,
                           weight.array.data());
  });
}

}  // namespace stowage::tools
