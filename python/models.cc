#include "python/models.h"

#include <pybind11/stl.h>

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "autodiff/backward.h"
#include "autodiff/batch_analysis.h"
#include "base/strings.h"
#include "ir/builder.h"
#include "ir/canonicalize/canonicalize.h"
#include "python/errors.h"
#include "python/graphs.h"
#include "train/evaluation.h"

namespace stowage::python {
namespace {

namespace py = pybind11;

ModelFn NamedGraph(const std::string& name, const ModelOptions& options,
                   ModelPurpose purpose) {
  return [name, options, purpose](int64_t batch) {
    ModelOptions of_batch = options;
    of_batch.batch = batch;
    return BuildModel(name, purpose, of_batch);
  };
}

Model NamedModel(const std::string& name, std::optional<int64_t> batch,
                 std::optional<int64_t> seq, const std::string& dtype,
                 double dropout) {
  const ModelInfo info = ValueOf(FindModel(name));
  ModelOptions options{.batch = batch.value_or(info.batch),
                       .seq = seq,
                       .dtype = ValueOf(ParseDType(dtype)),
                       .dropout = dropout};
  if (!seq && info.seq > 0) options.seq = info.seq;
  return {.name = name,
          .train = NamedGraph(name, options, ModelPurpose::kTrain),
          .evaluate = NamedGraph(name, options, ModelPurpose::kEvaluate),
          .batch = *options.batch,
          .dtype = options.dtype,
          .defaults = info.training};
}

Model OnnxBytesModel(const py::bytes& bytes, const std::string& path,
                     std::optional<int64_t> batch,
                     std::map<std::string, int64_t> dims,
                     std::map<std::string, std::vector<int64_t>> shapes,
                     const std::string& loss,
                     std::vector<std::string> trainable) {
  const OnnxModel model =
      ValueOf(ParseOnnx(static_cast<std::string_view>(bytes), path));
  const OnnxBuildOptions options{.dims = std::move(dims),
                                 .shapes = std::move(shapes),
                                 .loss = ParseOnnxLoss(loss),
                                 .trainable = std::move(trainable)};
  const OnnxStep step = ValueOf(SizeOnnxStep(model, options, batch));
  // Errors of the graph are raised when it is planned.
  std::vector<std::string> frozen;
  if (const Result<Graph> graph = step.Build(step.batch); graph.ok()) {
    auto unreached = FindUnreachedParams(*graph, "loss");
    if (unreached.ok()) frozen = *std::move(unreached);
  }
  const OnnxStep pass = step.ForwardPass();
  return {
      .name = model.name(),
      .train = [step](int64_t examples) { return step.Build(examples); },
      .evaluate = [pass](int64_t examples) { return pass.Build(examples); },
      .validate =
          [step](int64_t examples) {
            return step.Build(examples, /*evaluation=*/true);
          },
      .evaluate_resized =
          pass.batch_symbol.empty()
              ? [pass](int64_t examples) { return pass.BuildResized(examples); }
              : ModelFn(),
      .batch = step.batch,
      .weights = model,
      .frozen = std::move(frozen)};
}

// May be called and destroyed in threads that do not hold the GIL.
std::shared_ptr<BuildFunction> SharedModel(const py::function& build) {
  return {new BuildFunction{build}, [](BuildFunction* last) {
            py::gil_scoped_acquire held;
            delete last;
          }};
}

// The function takes a GraphBuilder and a number of examples.
ModelFn CalledGraph(const std::string& name,
                    const std::shared_ptr<BuildFunction>& function,
                    bool canonicalize) {
  return [name, function, canonicalize](int64_t batch) -> Result<Graph> {
    py::gil_scoped_acquire held;
    function->raised = {};
    try {
      const auto builder = std::make_shared<Builder>(name);
      function->call(builder, batch);
      Result<Graph> graph = builder->Finish();
      if (!canonicalize || !graph.ok()) return graph;
      STOWAGE_ASSIGN_OR_RETURN(Canonicalized canonical, Canonicalize(*graph));
      return std::move(canonical.graph);
    } catch (py::error_already_set& raised) {
      if (raised.trace()) {
        PyException_SetTraceback(raised.value().ptr(), raised.trace().ptr());
      }
      function->raised = raised.value();
      // The model may support other numbers of examples.
      const py::object unsupported =
          py::module_::import("stowage.errors").attr("Unsupported");
      return Error{raised.matches(unsupported) ? ErrorCode::kUnsupported
                                               : ErrorCode::kInvalidArgument,
                   StrCat("[model] the function that builds ", Quoted(name),
                          " has raised ", raised.what())};
    }
  };
}

Model BuiltModel(const std::string& name, const py::function& train,
                 const std::optional<py::function>& evaluate, int64_t batch,
                 bool canonicalize,
                 const std::optional<py::function>& validate) {
  std::vector<std::shared_ptr<BuildFunction>> functions;
  const auto graph_of = [&](const std::optional<py::function>& build) {
    if (!build) return ModelFn();
    functions.push_back(SharedModel(*build));
    return CalledGraph(name, functions.back(), canonicalize);
  };
  Model model;
  model.name = name;
  model.batch = batch;
  model.train = graph_of(train);
  model.evaluate = graph_of(evaluate);
  model.validate = graph_of(validate);
  model.functions = std::move(functions);
  return model;
}

std::string Brief(const Model& model) {
  return StrCat("<stowage.Model ", Quoted(WithoutControls(model.name)),
                ", batch ", model.batch, ">");
}

// The inputs, params and states of a step, one per line. Raises exceptions of the function.
std::string Described(const Model& model) {
  const Result<Graph> graph = model.train(model.batch);
  if (!graph.ok()) model.Raise(graph.error());
  std::string lines;
  int64_t params = 0, elements = 0, fixed = 0;
  const std::set<std::string> frozen(model.frozen.begin(), model.frozen.end());
  for (const Role role : {Role::kInput, Role::kParam, Role::kState}) {
    for (const ValueId id : graph->Leaves(role)) {
      const ValueInfo& value = graph->value(id);
      // Supplied by the trainer.
      if (role == Role::kInput && value.type.shape.rank() == 0 &&
          (value.name == "seed" || value.name == "step")) {
        continue;
      }
      lines += StrCat("\n  ", RoleName(role), " ", WithoutControls(value.name),
                      " ", value.type.ToString());
      if (role != Role::kParam) continue;
      ++params;
      elements += value.type.shape.num_elements();
      if (!frozen.contains(value.name)) continue;
      ++fixed;
      lines += ", frozen";
    }
  }
  return StrCat(WithoutControls(model.name), ", batch ", model.batch, ": ",
                params, " params of ", elements, " elements",
                fixed > 0 ? StrCat(", ", fixed, " of them frozen") : "", lines);
}

}  // namespace

ModelFn Model::Validation() const {
  const ModelFn own = validate ? validate : evaluate;
  return [own](int64_t examples) -> Result<Graph> {
    STOWAGE_ASSIGN_OR_RETURN(const Graph graph, own(examples));
    const bool has_loss = std::ranges::any_of(
        graph.outputs(), [](const auto& each) { return each.name == "loss"; });
    if (has_loss) return WithPredictions(graph);
    return Error{ErrorCode::kUnsupported,
                 "[model] the evaluation has no output \"loss\""};
  };
}

void Model::Raise(const Error& error) const {
  py::object cause;
  for (const std::shared_ptr<BuildFunction>& function : functions) {
    // Not stored: its frames would reference this object.
    const py::object raised = std::exchange(function->raised, {});
    if (raised && !cause) cause = raised;
  }
  if (!cause) python::Raise(error);
  if (!PyErr_GivenExceptionMatches(cause.ptr(), PyExc_Exception)) {
    PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(cause.ptr())),
                    cause.ptr());
    throw py::error_already_set();
  }
  try {
    python::Raise(error);
  } catch (py::error_already_set& raised) {
    PyException_SetCause(raised.value().ptr(), cause.release().ptr());
    throw;
  }
}

void BindModels(py::module_& module) {
  py::class_<Model>(
      module, "Model", py::dynamic_attr(),
      "What stowage.model or stowage.from_torch made, to plan and to train.")
      .def_readonly("name", &Model::name, "What its reports call it.")
      .def_readonly("batch", &Model::batch, "Examples of a step.")
      .def_property_readonly("_dtype",
                             [](const Model& model) {
                               return std::string(DTypeName(model.dtype));
                             })
      .def_readwrite("_frozen", &Model::frozen)
      .def("__repr__", &Brief)
      .def("__str__", &Described);
  module.def("named_model", &NamedModel, py::arg("name"), py::arg("batch"),
             py::arg("seq"), py::arg("dtype"), py::arg("dropout"));
  module.def("onnx_model", &OnnxBytesModel, py::arg("content"), py::arg("path"),
             py::arg("batch"), py::arg("dims"), py::arg("shapes"),
             py::arg("loss"), py::arg("trainable"));
  module.def("built_model", &BuiltModel, py::arg("name"), py::arg("train"),
             py::arg("evaluate"), py::arg("batch"),
             py::arg("canonicalize") = false, py::arg("validate") = py::none());
  module.def("model_names", [] {
    std::vector<std::string> names;
    for (const ModelInfo& info : Models()) names.emplace_back(info.name);
    return names;
  });
}

namespace {

// How an output combines from those of whole batches: the rule, or why there is none; the
// example axis; the number of entries per example; why batches must be full, if they must.
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

// `twice` may be null.
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
    // Graphs of other batches, each of which shows whether an output of `part` combines from
    // single examples. Rows of groups of two or more may combine for one of two coprime
    // batches, but not for both.
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
  // With single examples, outputs with a first dimension of 1 are the example's.
  const auto is_alone = [&](const Shape& shape) {
    return is_fixed && batch == 1 && shape.rank() > 0 && shape[0] == 1;
  };
  if (!built.ok()) {
    // A single batch.
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
  // The reason why an output does not combine from single examples.
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
