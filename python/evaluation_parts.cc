#include "python/evaluation_parts.h"

#include <pybind11/stl.h>

#include <algorithm>
#include <string>
#include <utility>

#include "autodiff/batch_analysis.h"
#include "base/strings.h"
#include "python/errors.h"

namespace stowage::python {

namespace py = pybind11;

namespace {

// How an output of any number of examples follows from those of whole batches: (what joins
// them, or why nothing does; the axis of the examples; how often they come in it; why
// batches must be whole, if they must).
py::tuple JoinOf(const BatchValue& value, const Shape& shape, int64_t batch,
                 bool is_fixed, const std::string& why_whole) {
  int64_t runs = 1;
  std::string how = value.why;
  switch (value.kind) {
    case BatchKind::kSame:
      how = "same";
      break;
    case BatchKind::kPerExample:
      how = "examples";
      if (!value.is_uniform) runs = value.runs;
      if (shape[value.axis] % (runs * batch) != 0) {
        how = StrCat("its ", shape[value.axis], " slices are no whole number ",
                     "of each example");
      }
      break;
    case BatchKind::kSum:
      how = "sum";
      break;
    case BatchKind::kMean:
      how = "mean";
      break;
    case BatchKind::kMax:
      how = "max";
      break;
    case BatchKind::kMixed:
      break;
  }
  const bool is_total = how == "sum" || how == "mean" || how == "max";
  if (is_total && is_fixed) {
    how = StrCat("it is a ", how, " over the examples of a file that fixes ",
                 "their number");
  }
  return py::make_tuple(how, shape.rank() > 0 ? value.axis : 0, runs,
                        why_whole);
}

// `twice` is null where there is none.
std::vector<int64_t> AxesOf(const Graph* twice, int64_t batch,
                            const std::vector<ProgramInput>& inputs) {
  std::vector<int64_t> axes;
  for (const auto& [name, type] : inputs) {
    if (twice == nullptr) {
      const bool has_examples = type.shape.rank() > 0 && type.shape[0] == batch;
      axes.push_back(has_examples ? 0 : -1);
      continue;
    }
    const Shape& larger = twice->value(*twice->Find(name)).type.shape;
    const auto axis = std::ranges::mismatch(larger, type.shape).in2;
    axes.push_back(axis == type.shape.end() ? -1 : axis - type.shape.begin());
  }
  return axes;
}

}  // namespace

std::vector<int64_t> ExampleAxes(const ModelFn& model, int64_t batch,
                                 const std::vector<ProgramInput>& inputs) {
  const Result<Graph> twice =
      ResultWithoutGil([&] { return model(2 * batch); });
  return AxesOf(twice.ok() ? &*twice : nullptr, batch, inputs);
}

py::tuple EvaluationParts(const EvaluatedProgram& program, bool is_partial) {
  const bool is_fixed = program.resized != nullptr;
  const int64_t batch = program.batch;
  struct Graphs {
    Graph whole, part;
    // Graphs of other sizes: any of these lists tells whether an output of `part` follows
    // from single examples. Rows of groups of two or more may follow from batches of one
    // of two coprime sizes, not from both.
    std::vector<std::vector<Graph>> for_one;
    std::string why_not_one;
  };
  Graphs graphs;
  const ModelFn& resized = is_fixed ? program.resized : program.model;
  const auto build = [&]() -> Status {
    STOWAGE_ASSIGN_OR_RETURN(graphs.part, program.model(batch));
    STOWAGE_ASSIGN_OR_RETURN(graphs.whole, resized(2 * batch));
    if (!is_partial) return {};
    const std::vector<int64_t> sizes[] = {
        {1}, {batch == 2 ? 5 : 2, batch == 3 ? 5 : 3}};
    for (const std::vector<int64_t>& of_list : sizes) {
      std::vector<Graph> made;
      for (const int64_t size : of_list) {
        Result<Graph> other = resized(size);
        if (!other.ok()) {
          graphs.why_not_one = other.error().message;
          break;
        }
        made.push_back(*std::move(other));
      }
      if (made.size() == of_list.size()) {
        graphs.for_one.push_back(std::move(made));
      }
    }
    return {};
  };
  const Status built = ResultWithoutGil(build);
  py::dict parts;
  const std::vector<int64_t> axes =
      AxesOf(built.ok() ? &graphs.whole : nullptr, batch, program.inputs);
  // Of one example at a time, what has a first dimension of 1 is that example's.
  const auto is_alone = [&](const Shape& shape) {
    return is_fixed && batch == 1 && shape.rank() > 0 && shape[0] == 1;
  };
  if (!built.ok()) {
    // Of one batch alone.
    const Graph& graph = program.graph;
    for (const GraphOutput& output : graph.outputs()) {
      const bool is_one = is_alone(graph.value(output.value).type.shape);
      parts[py::str(output.name)] = py::make_tuple(
          is_one ? std::string("examples") : built.error().message, 0, 1, "");
    }
    return py::make_tuple(parts, axes);
  }
  const BatchAnalysis analysis = AnalyzeBatch(
      graphs.whole, graphs.part, {.has_totals = false, .has_shares = false});
  const auto outputs = graphs.part.outputs();
  // Why an output does not follow from single examples.
  const auto why_whole = [&](size_t i, const BatchValue& value) {
    std::string why = graphs.why_not_one;
    for (const std::vector<Graph>& others : graphs.for_one) {
      bool is_each = true;
      for (const Graph& fewer : others) {
        const BatchAnalysis of_sizes = AnalyzeBatch(
            graphs.part, fewer, {.has_totals = false, .has_shares = false});
        if (i >= fewer.outputs().size()) return why;
        const BatchValue& of_fewer =
            of_sizes.values[static_cast<size_t>(fewer.outputs()[i].value)];
        is_each &= of_fewer.kind == value.kind && of_fewer.axis == value.axis;
        if (!of_fewer.why.empty()) why = of_fewer.why;
      }
      if (is_each) return std::string();
    }
    return why.empty() ? std::string("examples share it") : why;
  };
  for (size_t i = 0; i < outputs.size(); ++i) {
    BatchValue value = analysis.values[static_cast<size_t>(outputs[i].value)];
    if (value.kind == BatchKind::kMixed &&
        is_alone(graphs.part.value(outputs[i].value).type.shape)) {
      value = {.kind = BatchKind::kPerExample};
    }
    parts[py::str(outputs[i].name)] = JoinOf(
        value, graphs.part.value(outputs[i].value).type.shape, batch, is_fixed,
        is_partial && value.kind == BatchKind::kPerExample && batch > 1
            ? why_whole(i, value)
            : std::string());
  }
  return py::make_tuple(parts, axes);
}

}  // namespace stowage::python
