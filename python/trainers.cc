#include "python/trainers.h"

#include <pybind11/stl.h>
#include <unistd.h>

#include <algorithm>
#include <tuple>
#include <utility>

#include "base/memory.h"
#include "base/strings.h"
#include "formats/array.h"
#include "ir/tensor_type.h"
#include "python/arrays.h"
#include "python/errors.h"
#include "python/plans.h"
#include "runtime/checkpoint.h"
#include "train/device.h"
#include "train/evaluation.h"

namespace stowage::python {
namespace {

namespace py = pybind11;

// `offload` is that of Request::optimizations.
Device OpenDevice(const std::string& name, const std::string& dtype,
                  int threads, const std::string& offload,
                  const std::string& offload_folder) {
  const DeviceFlags flags{.name = name,
                          .dtype = ValueOf(ParseDType(dtype)),
                          .threads = threads,
                          .offload_folder = ValueOf(OffloadFolder(
                              ValueOf(ParseOffload(offload)), offload_folder))};
  ChosenDevice chosen = WithoutGil([&] { return ChooseDevice(flags); });
  return {.backend = OfThisProcess(std::move(chosen.backend)),
          .why = std::move(chosen.why)};
}

Status StatusOf(Runner& runner, StepCode code) {
  if (code == StepCode::kOk) return {};
  return runner.Explain(code);
}

}  // namespace

HostArena::HostArena(std::shared_ptr<Backend> backend,
                     std::span<std::byte> bytes, Bytes alignment)
    : backend_(std::move(backend)),
      bytes_(bytes),
      alignment_(alignment),
      process_(getpid()) {}

HostArena::~HostArena() {
  if (getpid() != process_) return;
  backend_->Free(bytes_.data(), static_cast<Bytes>(bytes_.size()), alignment_);
}

Result<std::shared_ptr<HostArena>> HostArena::Make(
    std::shared_ptr<Backend> backend, Bytes bytes, Bytes alignment) {
  STOWAGE_ASSIGN_OR_RETURN(std::byte* const block,
                           backend->Allocate(bytes, alignment));
  return std::shared_ptr<HostArena>(new HostArena(
      std::move(backend), {block, static_cast<size_t>(bytes)}, alignment));
}

Trainer::Trainer(std::shared_ptr<PlannedTraining> plan, const Device& device,
                 uint64_t seed)
    : plan_(std::move(plan)),
      backend_(device.backend),
      seed_(seed),
      process_(getpid()) {
  const TrainingPlan& planned = plan_->plan();
  WithoutGil([&]() -> Status {
    if (const auto budget = plan_->spec().budget) {
      STOWAGE_RETURN_IF_ERROR(backend_->CheckBudget(*budget));
    }
    ReturnFreeMemory();  // of the search for the plan
    SessionOptions options;
    if (!backend_->works_on_its_own()) {
      STOWAGE_ASSIGN_OR_RETURN(arena_,
                               HostArena::Make(backend_, planned.arena_bytes(),
                                               planned.step.plan.alignment));
      options.arena = arena_->bytes();
    }
    STOWAGE_ASSIGN_OR_RETURN(Training training,
                             Training::Open(planned, *backend_, options));
    training_ = std::make_unique<Training>(std::move(training));
    training_->Initialize(seed_);
    Runner& step = training_->step();
    STOWAGE_ASSIGN_OR_RETURN(const Graph forward,
                             plan_->spec().model(plan_->spec().batch));
    for (const Role role : {Role::kParam, Role::kState}) {
      for (const ValueId id : forward.Leaves(role)) {
        weights_.push_back(forward.value(id).name);
      }
    }
    if (!plan_->model().weights) return {};
    return plan_->model().weights->ForEachWeight(
        step.graph(), [&](const NamedArray& weight) {
          return step.WriteBytes(weight.name, weight.array.type.dtype,
                                 weight.array.data());
        });
  });
  step_inputs_ = FindInputs(training_->step().graph());
  group_values_.resize(group_inputs().size());
  for (const PlannedProgram& program : planned.programs) {
    programs_[program.name] = {FindInputs(program.graph), program.batch};
  }
}

// A forked child, whose copy has no threads, releases nothing.
Trainer::~Trainer() {
  if (getpid() == process_) return;
  static_cast<void>(averaged_.release());
  static_cast<void>(training_.release());
}

void Trainer::CheckUsable() const {
  if (is_closed()) {
    Raise("Closed", "[trainer] the trainer is closed");
  }
  if (getpid() != process_) {
    Raise("Forked",
          StrCat("[trainer] the trainer is of process ", process_,
                 ", and its threads are not in its forked child ", getpid(),
                 "; make a trainer in the child, or start it by spawn"));
  }
}

void Trainer::RaiseNoTurn() const {
  if (is_closed())
    Raise("Closed", "[trainer] the trainer was closed meanwhile");
  if (uses_averages_) {
    Raise("InvalidArgument",
          "[trainer] the params have the values of their averages; steps, "
          "loads and checkpoints wait until they are restored");
  }
  Raise("InvalidArgument",
        "[trainer] fit is taking steps; while it does, callbacks and other "
        "threads may evaluate, read and save, and nothing else");
}

Runner& Trainer::RunnerOf(const std::string& program) {
  CheckUsable();
  Runner* const runner = training_->Find(program);
  if (runner != nullptr) return *runner;
  Raise("NotFound", StrCat("[trainer] there is no program ", Quoted(program),
                           "; a model without one cannot evaluate"));
}

Trainer::ProgramInputs Trainer::FindInputs(const Graph& graph) {
  ProgramInputs found{.inputs = {}, .others = StepInputs(graph)};
  for (const ValueId id : graph.Leaves(Role::kInput)) {
    const ValueInfo& input = graph.value(id);
    if (!StepInputs::Includes(input)) {
      found.inputs.push_back({input.name, input.type});
    }
  }
  return found;
}

std::string Trainer::ToText(const std::vector<ProgramInput>& inputs) {
  std::string text;
  for (const auto& [name, type] : inputs) {
    text +=
        StrCat(text.empty() ? "" : ", ", Quoted(name), " ", type.ToString());
  }
  return text;
}

float Trainer::Step(const py::args& inputs, const py::kwargs& named) {
  CheckUsable();
  const std::vector<ProgramInput>& wanted = step_inputs_.inputs;
  if (inputs.size() + named.size() != wanted.size()) {
    Raise("InvalidArgument",
          StrCat("[step] ", inputs.size() + named.size(),
                 " arrays are given; the step has ", wanted.size(),
                 " inputs: ", ToText(wanted)));
  }
  std::vector<ArrayView> views;
  views.reserve(wanted.size());
  std::vector<std::vector<std::byte>> converted(wanted.size());
  std::vector<std::span<const std::byte>> data;
  for (size_t i = 0; i < wanted.size(); ++i) {
    const ProgramInput& input = wanted[i];
    py::handle array;
    if (i < inputs.size()) {
      array = inputs[i];
    } else if (named.contains(input.name)) {
      array = named[input.name.c_str()];
    } else {
      Raise("InvalidArgument",
            StrCat("[step] no array is given for the input ",
                   Quoted(input.name), " ", input.type.ToString()));
    }
    data.push_back(
        views.emplace_back(array, input.name).As(input.type, &converted[i]));
  }
  return InTurn(
      Turn::kChanges,
      [&, rate = rate_, of_groups = group_values_]() -> Result<float> {
        Runner& runner = training_->step();
        const int64_t number = steps_ + 1;
        for (size_t i = 0; i < wanted.size(); ++i) {
          STOWAGE_RETURN_IF_ERROR(
              runner.WriteBytes(wanted[i].name, wanted[i].type.dtype, data[i]));
        }
        STOWAGE_RETURN_IF_ERROR(step_inputs_.others.Write(
            runner, {.step = number,
                     .lr = rate.At(number),
                     .seed = static_cast<int64_t>(seed_),
                     .of_groups = of_groups}));
        STOWAGE_RETURN_IF_ERROR(StatusOf(runner, runner.Step()));
        ++steps_;
        return runner.ReadScalar("loss");
      });
}

py::dict Trainer::Evaluate(const std::string& program,
                           const std::vector<py::object>& inputs) {
  Runner& runner = RunnerOf(program);
  const ProgramInputs& program_inputs = programs_.at(program).inputs;
  const std::vector<ProgramInput>& wanted = program_inputs.inputs;
  if (inputs.size() != wanted.size()) {
    Raise("InvalidArgument",
          StrCat("[evaluate] ", inputs.size(),
                 " arrays are given; the evaluation has ", wanted.size(),
                 " inputs: ", ToText(wanted)));
  }
  // Before converting arrays, during which other threads may close this trainer.
  std::vector<NamedArray> outputs;
  for (const GraphOutput& output : runner.graph().outputs()) {
    const TensorType& type = runner.graph().value(output.value).type;
    outputs.push_back(
        {output.name,
         {type, std::string(static_cast<size_t>(type.bytes()), '\0')}});
  }
  std::vector<ArrayView> views;
  views.reserve(wanted.size());
  std::vector<std::vector<std::byte>> converted(wanted.size());
  std::vector<std::span<const std::byte>> data;
  for (size_t i = 0; i < wanted.size(); ++i) {
    data.push_back(views.emplace_back(inputs[i], wanted[i].name)
                       .As(wanted[i].type, &converted[i]));
  }
  InTurn(Turn::kReads, [&]() -> Status {
    for (size_t i = 0; i < wanted.size(); ++i) {
      STOWAGE_RETURN_IF_ERROR(
          runner.WriteBytes(wanted[i].name, wanted[i].type.dtype, data[i]));
    }
    STOWAGE_RETURN_IF_ERROR(program_inputs.others.Write(
        runner, {.step = steps_ + 1, .seed = static_cast<int64_t>(seed_)}));
    STOWAGE_RETURN_IF_ERROR(StatusOf(runner, runner.Step()));
    for (NamedArray& output : outputs) {
      STOWAGE_RETURN_IF_ERROR(runner.ReadBytes(
          output.name, output.array.type.dtype, output.array.data()));
    }
    return {};
  });
  py::dict results;
  for (const NamedArray& output : outputs) {
    results[py::str(output.name)] =
        ToNumpy(output.array.type, output.array.data());
  }
  return results;
}

py::tuple Trainer::EvaluationPartsOf(const std::string& program,
                                     bool is_partial) {
  const Runner& runner = RunnerOf(program);
  const Model& model = plan_->model();
  const bool validates = program == "validate";
  const Beside& beside = programs_.at(program);
  const ModelFn own = validates ? model.Validation() : model.evaluate;
  const ModelFn resized = validates ? ModelFn() : model.evaluate_resized;
  return EvaluationParts({.graph = runner.graph(),
                          .model = own,
                          .resized = resized,
                          .batch = beside.batch,
                          .inputs = beside.inputs.inputs},
                         is_partial);
}

std::optional<int64_t> Trainer::Classes() {
  RunnerOf("validate");
  const ModelFn model = plan_->model().Validation();
  const Graph graph =
      WithoutGil([&] { return model(programs_.at("validate").batch); });
  return ClassesOf(graph);
}

py::list Trainer::InputsOf(const std::string& program) {
  RunnerOf(program);
  py::list all;
  for (const auto& [name, type] :
       (program == "train" ? step_inputs_ : programs_.at(program).inputs)
           .inputs) {
    py::list dims;
    for (const int64_t dim : type.shape) dims.append(dim);
    all.append(py::make_tuple(name, std::string(DTypeName(type.dtype)),
                              py::tuple(dims)));
  }
  return all;
}

namespace {

// The value of that name in the training step. Raises NotFound.
const ValueInfo& Find(const Runner& runner, const std::string& name) {
  const std::optional<ValueId> id = runner.graph().Find(name);
  if (id) return runner.graph().value(*id);
  Raise("NotFound",
        StrCat("[trainer] there is no value ", Quoted(name), " in the step"));
}

}  // namespace

py::object Trainer::Read(const std::string& name) {
  const Runner& runner = RunnerOf("train");
  const TensorType type = Find(runner, name).type;
  std::vector<std::byte> content(static_cast<size_t>(type.bytes()));
  InTurn(Turn::kReads,
         [&] { return runner.ReadBytes(name, type.dtype, content); });
  return ToNumpy(type, content);
}

void Trainer::Write(const std::map<std::string, py::object>& arrays) {
  Runner& runner = RunnerOf("train");
  // Before converting arrays, during which other threads may close this trainer.
  std::map<std::string, TensorType> types;
  for (const auto& [name, array] : arrays) {
    types.emplace(name, Find(runner, name).type);
  }
  std::vector<ArrayView> views;
  for (const auto& [name, array] : arrays) {
    views.emplace_back(array, name).CheckIsWeight(types.at(name));
  }
  InTurn(Turn::kChanges, [&]() -> Status {
    auto view = views.begin();
    for (const auto& [name, type] : types) {
      const bool is_widened = view->type() != type;
      STOWAGE_RETURN_IF_ERROR(
          is_widened
              ? runner.WriteBytes(name, type.dtype, RoundToBF16(view->data()))
              : runner.WriteBytes(name, type.dtype, view->data()));
      ++view;
    }
    return {};
  });
}

ArenaValue Trainer::View(const std::string& name) {
  const Runner& runner = RunnerOf("train");
  const ValueInfo& value = Find(runner, name);
  if (!arena_) {
    Raise("Unsupported",
          "[view] the arena is on a device that the host cannot look at; read "
          "a copy (read)");
  }
  if ((value.role != Role::kParam && value.role != Role::kState) ||
      value.on_host) {
    Raise("InvalidArgument",
          StrCat("[view] ", Quoted(name), " is ",
                 value.on_host ? "a state in the host's memory"
                               : RoleName(value.role),
                 "; only params and states of the arena stay where they are "
                 "from step to step; read a copy (read)"));
  }
  FormatOf(value.type.dtype);  // raises for bf16
  const Plan& plan = runner.plan();
  const ValueId id = *runner.graph().Find(name);
  const auto buffer =
      static_cast<size_t>(plan.buffer_of[static_cast<size_t>(id)]);
  return {arena_, value.type,
          arena_->bytes().subspan(
              static_cast<size_t>(plan.AddressOf(plan.buffers[buffer])),
              static_cast<size_t>(value.type.bytes()))};
}

LoadedWeights Trainer::LoadWeights(const std::string& path,
                                   const WeightRules& rules) {
  Runner& runner = RunnerOf("train");
  return InTurn(Turn::kChanges,
                [&] { return stowage::LoadWeights(runner, path, rules); });
}

RunNotes Trainer::Notes() const {
  return {{"model", plan_->model().name},
          {"optimizer",
           std::string(OptimizerName(plan_->spec().training.optimizer))},
          {"seed", StrCat(seed_)}};
}

void Trainer::Save(const std::string& path) {
  const Runner& runner = RunnerOf("train");
  const RunNotes notes = Notes();
  InTurn(Turn::kSaves,
         [&] { return SaveCheckpoint(runner, path, steps_, notes); });
}

void Trainer::UseAverages() {
  Runner& step = RunnerOf("train");
  if (!KeepsAverages(step.graph())) {
    Raise("InvalidArgument",
          "[averaged] the trainer keeps no averages; give it ema, such as "
          "0.999");
  }
  InTurn(Turn::kChanges, [&]() -> Status {
    STOWAGE_ASSIGN_OR_RETURN(AveragedWeights averaged,
                             AveragedWeights::Use(step));
    averaged_ = std::make_unique<AveragedWeights>(std::move(averaged));
    uses_averages_ = true;
    return {};
  });
}

void Trainer::RestoreParams() {
  CheckUsable();
  InTurn(Turn::kReads, [&]() -> Status {
    const std::unique_ptr<AveragedWeights> averaged = std::move(averaged_);
    uses_averages_ = false;
    return averaged == nullptr ? Status() : averaged->Restore();
  });
}

void Trainer::SaveWeights(const std::string& path) {
  const Runner& runner = RunnerOf("train");
  InTurn(Turn::kReads, [&] { return stowage::SaveWeights(runner, path); });
}

int64_t Trainer::Resume(const std::string& path) {
  Runner& runner = RunnerOf("train");
  const std::string_view here = OptimizerName(plan_->spec().training.optimizer);
  return InTurn(Turn::kChanges, [&]() -> Result<int64_t> {
    // States of different optimizers may have equal names and types.
    STOWAGE_ASSIGN_OR_RETURN(const CheckpointInfo info,
                             ReadCheckpointInfo(path));
    const std::string* const saved = info.Find("optimizer");
    if (saved != nullptr && *saved != here) {
      return Error{ErrorCode::kInvalidArgument,
                   StrCat("[resume] ", Quoted(path),
                          " is of a run with optimizer=", Quoted(*saved),
                          ", this trainer has ", Quoted(here),
                          ", which cannot go on with its states; expected the "
                          "same optimizer")};
    }
    STOWAGE_ASSIGN_OR_RETURN(steps_, LoadCheckpoint(runner, path));
    return steps_.load();
  });
}

py::bytes Trainer::ToOnnx() {
  const Runner& runner = RunnerOf("train");
  const std::optional<OnnxModel>& model = plan_->model().weights;
  if (!model) {
    Raise("InvalidArgument",
          "[onnx] the model did not come from an ONNX file, whose weights "
          "could be replaced");
  }
  return InTurn(Turn::kReads, [&] {
    return model->WithWeights(runner.graph(), [&](NamedArray& weight) {
      return runner.ReadBytes(weight.name, weight.array.type.dtype,
                              weight.array.data());
    });
  });
}

Bytes Trainer::arena_bytes() {
  CheckUsable();
  return training_->session().arena_bytes();
}

std::string Trainer::device() {
  CheckUsable();
  return backend_->description();
}

void Trainer::Close() {
  if (is_closed()) return;
  CheckUsable();
  std::unique_lock<std::mutex> turn(turn_, std::defer_lock);
  {
    py::gil_scoped_release released;
    turn.lock();
  }
  if (is_running_) RaiseNoTurn();
  if (arena_.use_count() > 1) {
    const auto views = arena_.use_count() - 1;
    PyErr_SetString(
        PyExc_BufferError,
        StrCat("[trainer] ", views, views == 1 ? " view" : " views",
               " of the arena would outlive it; let go of the views, and of "
               "arrays made of them without a copy, before it is closed")
            .c_str());
    throw py::error_already_set();
  }
  const std::shared_ptr<HostArena> arena = std::move(arena_);  // goes last
  averaged_.reset();
  const std::unique_ptr<Training> training = std::move(training_);
  turn.unlock();
}

void BindTrainers(py::module_& module) {
  py::class_<Device>(module, "Device")
      .def_readonly("why", &Device::why)
      .def_property_readonly("name", [](const Device& self) {
        return std::string(self.backend->name());
      });
  module.def(
      "check_array",
      [](const py::object& array, const std::string& name) {
        ArrayView(array, name);
      },
      py::arg("array"), py::arg("name"));
  module.def("open_device", &OpenDevice, py::arg("name"), py::arg("dtype"),
             py::arg("threads"), py::arg("offload") = "none",
             py::arg("offload_folder") = "");
  py::class_<ArenaValue>(module, "ArenaValue", py::buffer_protocol())
      .def_buffer([](ArenaValue& self) {
        const Bytes element = SizeOf(self.type.dtype);
        std::vector<py::ssize_t> dims(self.type.shape.begin(),
                                      self.type.shape.end());
        std::vector<py::ssize_t> strides;
        for (const int64_t stride : ContiguousStrides(self.type.shape)) {
          strides.push_back(stride * element);
        }
        return py::buffer_info(self.data.data(), element,
                               std::string(1, FormatOf(self.type.dtype)),
                               self.type.shape.rank(), std::move(dims),
                               std::move(strides));
      });
  py::class_<Rate>(module, "Rate")
      .def(py::init([](double peak, int64_t steps, int64_t warmup,
                       double final_factor, std::string_view kind, double power,
                       double decay_share) {
             return Rate{.schedule = {.peak = peak,
                                      .warmup = warmup,
                                      .final_factor = final_factor,
                                      .kind = ValueOf(ParseSchedule(kind)),
                                      .power = power,
                                      .decay_share = decay_share},
                         .steps = steps};
           }),
           py::arg("peak"), py::arg("steps"), py::arg("warmup"),
           py::arg("final_factor"), py::arg("kind"), py::arg("power"),
           py::arg("decay_share"))
      .def("at", &Rate::At, py::arg("step"));
  py::class_<Trainer>(module, "Trainer")
      .def(
          py::init<std::shared_ptr<PlannedTraining>, const Device&, uint64_t>(),
          py::arg("plan"), py::arg("device"), py::arg("seed"))
      .def("step", &Trainer::Step)
      .def("rate", &Trainer::rate)
      .def("set_rate", &Trainer::set_rate, py::arg("rate"))
      .def("group_inputs", &Trainer::group_inputs)
      .def("set_group_values", &Trainer::set_group_values, py::arg("values"))
      .def("evaluate", &Trainer::Evaluate, py::arg("program"),
           py::arg("inputs"))
      .def("inputs_of", &Trainer::InputsOf, py::arg("program"))
      .def("step_axes", &Trainer::StepAxes)
      .def("classes", &Trainer::Classes)
      .def("evaluation_parts", &Trainer::EvaluationPartsOf, py::arg("program"),
           py::arg("is_partial"))
      .def("evaluation_batch", &Trainer::evaluation_batch, py::arg("program"))
      .def("weights", &Trainer::weights)
      .def("read", &Trainer::Read, py::arg("name"))
      .def("write", &Trainer::Write, py::arg("arrays"))
      .def("view", &Trainer::View, py::arg("name"))
      .def(
          "load_weights",
          [](Trainer& self, const std::string& path,
             const std::vector<std::pair<std::string, std::string>>& rename,
             const std::vector<std::string>& transpose,
             const std::vector<std::string>& allow_missing,
             const std::vector<std::string>& allow_unused) {
            WeightRules rules{.transpose = transpose,
                              .allow_missing = allow_missing,
                              .allow_unused = allow_unused};
            for (const auto& [from, to] : rename) {
              rules.rename.push_back(
                  ValueOf(ParseRenameRule(StrCat(from, "=", to))));
            }
            LoadedWeights loaded = self.LoadWeights(path, rules);
            return std::tuple(loaded.loaded, std::move(loaded.missing),
                              std::move(loaded.unused));
          },
          py::arg("path"), py::arg("rename"), py::arg("transpose"),
          py::arg("allow_missing"), py::arg("allow_unused"))
      .def("save", &Trainer::Save, py::arg("path"))
      .def("save_weights", &Trainer::SaveWeights, py::arg("path"))
      .def("use_averages", &Trainer::UseAverages)
      .def("restore_params", &Trainer::RestoreParams)
      .def("resume", &Trainer::Resume, py::arg("path"))
      .def("to_onnx", &Trainer::ToOnnx)
      .def("steps", &Trainer::steps)
      .def("set_steps", &Trainer::SetSteps, py::arg("steps"))
      .def("arena_bytes", &Trainer::arena_bytes)
      .def("device", &Trainer::device)
      .def("close", &Trainer::Close)
      .def("is_closed", &Trainer::is_closed);
}

}  // namespace stowage::python
