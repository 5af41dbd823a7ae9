#include "runtime/session.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "base/strings.h"
#include "ir/graph.h"
#include "math/small_floats.h"
#include "planner/plan.h"
#include "runtime/backend.h"
#include "runtime/control_flow.h"
#include "runtime/program.h"
#include "runtime/values.h"

namespace stowage {

// The values that must be written before a step runs.
struct RequiredInput {
  ValueId value;
  bool written = false;
};

// The state of a step, kept for the last kStepsInFlight of them.
struct KeptStep {
  StepCode code = StepCode::kOk;
  NodeId failed_node = kNoNode;
  std::vector<float> scalars;  // Program::scalars()
};

struct Runner::State {
  std::string name;
  Program program;
  std::unique_ptr<Executable> executable;
  Session::State* session = nullptr;
  std::vector<RequiredInput> inputs;
  std::vector<ValueId> caches;
  // Params and states that have never been given values, by name.
  std::set<std::string_view> unset;
  uint64_t started = 0;  // steps
  uint64_t settled = 0;  // those of them whose status is in `kept`
  std::array<KeptStep, kStepsInFlight> kept;
  // True if the arena holds the results of the last step.
  bool stepped = false;
  // For poisoning: the buffers that die after each launch, by the launch's index.
  std::vector<std::vector<int32_t>> deaths;
  NodeId failed_node = kNoNode;
  std::span<double> seconds = {};  // by node, while a step is timed

  KeptStep& Kept(uint64_t step) { return kept[step % kStepsInFlight]; }
  // Returns whether a step can be waited for.
  bool Knows(uint64_t step) const {
    return step >= 1 && step <= started && started - step < kStepsInFlight;
  }
  Status Poison(const PlannedBuffer& buffer);
  // Checks that a param or state to be read was ever given values.
  Status CheckSet(const ValueInfo& value) const;
  // The param or state called `name`, if it has `bytes` bytes from `begin` on.
  Result<ValueId> FindPart(std::string_view name, DType dtype, Bytes begin,
                           size_t bytes, std::string_view asked) const;
  void RunNow(KeptStep* step) noexcept;
  StepCode RunPoisoned(size_t* failed) noexcept;
  StepCode RunTimed(size_t* failed) noexcept;
  void NoteFailure(StepCode code, size_t failed, KeptStep* step) noexcept;
  // Waits for all steps up to `last`.
  void Settle(uint64_t last) noexcept;
  // Returns whether the arena holds the cache's contents of earlier runs.
  bool Keeps(ValueId cache) const;
};

struct Session::State {
  Backend* backend = nullptr;
  std::byte* arena = nullptr;
  Bytes arena_bytes = 0;
  std::byte* host = nullptr;  // the host memory; null: none is needed
  Bytes host_bytes = 0;
  Bytes alignment = 1;
  bool owned = false;
  bool poison = false;
  std::vector<Runner> runners;
  // The program whose inputs, activations and outputs the unshared part of the arena
  // holds.
  Runner::State* occupant = nullptr;
  // Names of its caches that have contents.
  std::set<std::string_view> caches;

  ~State();
  // Waits until the host memory can be read.
  void Settle();
  // Writes a persistent value, once no step uses it.
  Status CopyIn(const ValueInfo& value, std::byte* to,
                std::span<const std::byte> data);
  // Reads contiguous bytes at `from`, once no step uses them.
  Status CopyOut(const ValueInfo& value, std::span<std::byte> to,
                 const std::byte* from);
  // Records that the param or state called `name` has values, in all programs. Contents
  // of caches were computed with the old values.
  void MarkSet(std::string_view name);
  // Records that it has no values.
  void MarkUnset(std::string_view name);
  // Gives the unshared part of the arena to `runner`; the previous program loses it,
  // except caches that `runner` also has.
  void Occupy(Runner::State* runner);
};

namespace {

Error SessionError(std::string_view message) {
  return {ErrorCode::kInvalidArgument, StrCat("[session] ", message)};
}

// NaN in every float type, -1 in integers.
constexpr uint8_t kPoison = 0xFF;

// Copies a strided view to contiguous, row-major `host`, through a copy of all bytes from
// its first to its last element.
Status CopyOutStrided(Backend& backend, const TensorView& view,
                      std::span<std::byte> host) {
  const Shape& shape = view.shape();
  const auto element = static_cast<size_t>(SizeOf(view.dtype()));
  int64_t last = 0;
  for (int axis = 0; axis < shape.rank(); ++axis) {
    last += (shape[axis] - 1) * view.strides[axis];
  }
  std::vector<std::byte> extent(static_cast<size_t>(last + 1) * element);
  STOWAGE_RETURN_IF_ERROR(backend.CopyOut(extent, view.data));
  for (int64_t i = 0; i < shape.num_elements(); ++i) {
    int64_t from = 0, rest = i;
    for (int axis = shape.rank() - 1; axis >= 0; --axis) {
      from += rest % shape[axis] * view.strides[axis];
      rest /= shape[axis];
    }
    std::memcpy(&host[static_cast<size_t>(i) * element],
                &extent[static_cast<size_t>(from) * element], element);
  }
  return {};
}

// Returns whether a value is in the regions that all programs share.
bool IsPersistent(const ValueInfo& value) {
  return value.is_leaf() &&
         (value.role == Role::kParam || value.role == Role::kState);
}

bool IsCache(const ValueInfo& value) { return value.role == Role::kCache; }

using ElementBytes = std::array<std::byte, 8>;

template <typename T>
ElementBytes BytesOf(T element) {
  ElementBytes bytes = {};
  std::memcpy(bytes.data(), &element, sizeof(element));
  return bytes;
}

template <typename T>
std::optional<ElementBytes> WholeElement(std::optional<int64_t> whole) {
  if (!whole || !std::in_range<T>(*whole)) return std::nullopt;
  return BytesOf(static_cast<T>(*whole));
}

// A number as an element of a type; absent if the type cannot hold it. `whole` is `real` if
// that is an integer.
std::optional<ElementBytes> ElementOf(DType dtype, double real,
                                      std::optional<int64_t> whole) {
  // Rounding to odd avoids double rounding.
  const float odd = math::RoundToOddFloat(real);
  const auto finite = [&](float stored, ElementBytes bytes) {
    const bool is_lost = std::isfinite(real) && !std::isfinite(stored);
    return is_lost ? std::nullopt : std::optional(bytes);
  };
  switch (dtype) {
    case DType::kF32:
      return finite(static_cast<float>(real),
                    BytesOf(static_cast<float>(real)));
    case DType::kF64:
      return BytesOf(real);
    case DType::kF16:
      return finite(math::HalfToFloat(math::FloatToHalf(odd)),
                    BytesOf(math::FloatToHalf(odd)));
    case DType::kBF16:
      return finite(math::BFloat16ToFloat(math::FloatToBFloat16(odd)),
                    BytesOf(math::FloatToBFloat16(odd)));
    case DType::kI16:
      return WholeElement<int16_t>(whole);
    case DType::kI32:
      return WholeElement<int32_t>(whole);
    case DType::kI64:
      return WholeElement<int64_t>(whole);
    case DType::kU8:
      return WholeElement<uint8_t>(whole);
    case DType::kBool:
      if (whole != 0 && whole != 1) return std::nullopt;
      return WholeElement<uint8_t>(whole);
  }
  return std::nullopt;
}

}  // namespace

Session::State::~State() {
  for (Runner& runner : runners) runner.state_->executable.reset();
  if (owned) backend->Free(arena, arena_bytes, alignment);
  if (host != nullptr) backend->FreeHost(host, host_bytes, alignment);
}

void Session::State::Settle() {
  if (occupant != nullptr) occupant->Settle(occupant->started);
}

Status Session::State::CopyIn(const ValueInfo& value, std::byte* to,
                              std::span<const std::byte> data) {
  if (!value.on_host) return backend->CopyIn(to, data);
  Settle();
  return backend->WriteHost(to, data);
}

Status Session::State::CopyOut(const ValueInfo& value, std::span<std::byte> to,
                               const std::byte* from) {
  if (!value.on_host) return backend->CopyOut(to, from);
  Settle();
  return backend->ReadHost(to, from);
}

void Session::State::MarkSet(std::string_view name) {
  caches.clear();
  for (Runner& runner : runners) runner.state_->unset.erase(name);
}

void Session::State::MarkUnset(std::string_view name) {
  caches.clear();
  for (Runner& runner : runners) {
    const Graph& graph = runner.graph();
    const std::optional<ValueId> id = graph.Find(name);
    if (!id || !IsPersistent(graph.value(*id))) continue;
    runner.state_->unset.insert(graph.value(*id).name);
  }
}

void Session::State::Occupy(Runner::State* runner) {
  if (occupant == runner) return;
  if (occupant != nullptr) {
    occupant->Settle(occupant->started);
    for (RequiredInput& input : occupant->inputs) input.written = false;
    occupant->stepped = false;
  }
  occupant = runner;
  const Graph& graph = runner->program.graph();
  std::erase_if(caches, [&](std::string_view name) {
    const std::optional<ValueId> id = graph.Find(name);
    return !id || !IsCache(graph.value(*id));
  });
}

bool Runner::State::Keeps(ValueId cache) const {
  return session->caches.contains(program.graph().value(cache).name);
}

// --- Runner ------------------------------------------------------------------

Runner::Runner(std::unique_ptr<State> state) : state_(std::move(state)) {}
Runner::Runner(Runner&&) noexcept = default;
Runner& Runner::operator=(Runner&&) noexcept = default;
Runner::~Runner() = default;

uint64_t Runner::started() const { return state_->started; }
const std::string& Runner::name() const { return state_->name; }
const Graph& Runner::graph() const { return state_->program.graph(); }
const Plan& Runner::plan() const { return state_->program.plan(); }

Status Runner::WriteReal(std::string_view name, double number) {
  const bool is_whole =
      std::trunc(number) == number && std::abs(number) < 0x1p63;
  return WriteElement(
      name, number,
      is_whole ? std::optional(static_cast<int64_t>(number)) : std::nullopt);
}

Status Runner::WriteWhole(std::string_view name, int64_t number, bool fits) {
  if (!fits) {
    return SessionError(StrCat("the number for ", Quoted(name),
                               " is above 9223372036854775807"));
  }
  return WriteElement(name, static_cast<double>(number), number);
}

Status Runner::WriteElement(std::string_view name, double real,
                            std::optional<int64_t> whole) {
  const auto id = graph().Find(name);
  if (!id) return WriteBytes(name, DType::kF64, {});
  const TensorType& type = graph().value(*id).type;
  const std::optional<ElementBytes> element =
      ElementOf(type.dtype, real, whole);
  if (!element) {
    return SessionError(StrCat(Quoted(name), " is of ", DTypeName(type.dtype),
                               ", which does not have the number ", real));
  }
  return WriteBytes(
      name, type.dtype,
      std::span(*element).first(static_cast<size_t>(SizeOf(type.dtype))));
}

Status Runner::WriteBytes(std::string_view name, DType dtype,
                          std::span<const std::byte> data) {
  const auto id = graph().Find(name);
  if (!id || !graph().value(*id).is_leaf()) {
    return SessionError(
        StrCat("program ", Quoted(state_->name), " has no leaf ", Quoted(name),
               "; only inputs, saved values, params, states and caches "
               "can be written"));
  }
  const ValueInfo& value = graph().value(*id);
  if (value.type.dtype != dtype ||
      value.type.bytes() != static_cast<Bytes>(data.size())) {
    return SessionError(StrCat(RoleName(value.role), " ", Quoted(name), " is ",
                               value.type.ToString(), ", ", value.type.bytes(),
                               " bytes; was given ", data.size(), " bytes of ",
                               DTypeName(dtype)));
  }
  if (!IsPersistent(value)) state_->session->Occupy(state_.get());
  if (value.role == Role::kInput) {
    state_->executable->WriteInput(*id, data);
  } else {
    state_->Settle(state_->started);
    // A saved value lies where results of the last step may be.
    if (value.role == Role::kSaved) state_->stepped = false;
    STOWAGE_RETURN_IF_ERROR(
        state_->session->CopyIn(value, state_->program.view(*id).data, data));
  }
  if (IsPersistent(value)) state_->session->MarkSet(name);
  if (IsCache(value)) state_->session->caches.insert(value.name);
  for (RequiredInput& input : state_->inputs) {
    if (input.value == *id) input.written = true;
  }
  return {};
}

Result<ValueId> Runner::State::FindPart(std::string_view name, DType dtype,
                                        Bytes begin, size_t bytes,
                                        std::string_view asked) const {
  const Graph& graph = program.graph();
  const auto id = graph.Find(name);
  if (!id || !IsPersistent(graph.value(*id))) {
    return SessionError(StrCat("program ", Quoted(this->name),
                               " has no param or state ", Quoted(name)));
  }
  const ValueInfo& value = graph.value(*id);
  const Bytes all = value.type.bytes();
  const auto size = static_cast<Bytes>(bytes);
  if (value.type.dtype != dtype || begin < 0 || size > all - begin) {
    return SessionError(StrCat(RoleName(value.role), " ", Quoted(name), " is ",
                               value.type.ToString(), ", ", all, " bytes; was ",
                               asked, " ", size, " bytes of ", DTypeName(dtype),
                               " from byte ", begin, " on"));
  }
  return *id;
}

Status Runner::WritePart(std::string_view name, DType dtype, Bytes begin,
                         std::span<const std::byte> data) {
  STOWAGE_ASSIGN_OR_RETURN(
      const ValueId id,
      state_->FindPart(name, dtype, begin, data.size(), "given"));
  const ValueInfo& value = graph().value(id);
  state_->Settle(state_->started);
  state_->session->caches.clear();
  STOWAGE_RETURN_IF_ERROR(state_->session->CopyIn(
      value, state_->program.view(id).data + begin, data));
  if (begin + static_cast<Bytes>(data.size()) == value.type.bytes()) {
    state_->session->MarkSet(name);
  }
  return {};
}

void Runner::Forget(std::string_view name) {
  state_->Settle(state_->started);
  state_->session->MarkUnset(name);
}

Status Runner::State::CheckSet(const ValueInfo& value) const {
  if (!unset.contains(value.name)) return {};
  return SessionError(
      StrCat("the ", RoleName(value.role), " ", Quoted(value.name),
             " of program ", Quoted(name),
             " has no values yet; call Session::Initialize, or write "
             "or load it"));
}

Status Runner::ReadPart(std::string_view name, DType dtype, Bytes begin,
                        std::span<std::byte> data) const {
  STOWAGE_ASSIGN_OR_RETURN(
      const ValueId id,
      state_->FindPart(name, dtype, begin, data.size(), "asked for"));
  STOWAGE_RETURN_IF_ERROR(state_->CheckSet(graph().value(id)));
  state_->Settle(state_->started);
  return state_->session->CopyOut(graph().value(id), data,
                                  state_->program.view(id).data + begin);
}

Status Runner::ClearCaches() {
  State& s = *state_;
  if (s.caches.empty()) return {};
  s.session->Occupy(&s);
  s.Settle(s.started);
  for (const ValueId id : s.caches) {
    const ValueInfo& value = graph().value(id);
    STOWAGE_RETURN_IF_ERROR(s.session->backend->FillBytes(
        s.program.view(id).data, value.type.bytes(), 0));
    s.session->caches.insert(value.name);
  }
  return {};
}

bool Runner::keeps_caches() const {
  return std::ranges::all_of(state_->caches,
                             [&](ValueId id) { return state_->Keeps(id); });
}

Status Runner::ReadBytes(std::string_view name, DType dtype,
                         std::span<std::byte> data) const {
  State& s = *state_;
  const auto id = graph().Find(name);
  if (!id) {
    return SessionError(
        StrCat("program ", Quoted(s.name), " has no value ", Quoted(name)));
  }
  s.Settle(s.started);
  const ValueInfo& value = graph().value(*id);
  const TensorView& view = s.program.view(*id);
  const auto outputs = graph().outputs();
  const bool survives =
      (value.is_leaf() && value.role != Role::kSaved) ||
      std::ranges::any_of(outputs, [&](const GraphOutput& output) {
        return output.value == *id;
      });
  if (!survives) {
    return SessionError(
        StrCat(Quoted(name), " of program ", Quoted(s.name),
               " does not survive the step; make it an output"));
  }
  if (value.type.dtype != dtype ||
      value.type.bytes() != static_cast<Bytes>(data.size())) {
    return SessionError(StrCat(
        Quoted(name), " is ", value.type.ToString(), ", ", value.type.bytes(),
        " bytes; was asked for ", data.size(), " bytes of ", DTypeName(dtype)));
  }
  STOWAGE_RETURN_IF_ERROR(s.CheckSet(value));
  const bool is_written =
      std::ranges::any_of(s.inputs, [&](const RequiredInput& input) {
        return input.value == *id && input.written;
      });
  const bool is_kept = IsCache(value) && s.Keeps(*id);
  if (!IsPersistent(value) && !s.stepped && !is_written && !is_kept) {
    return SessionError(
        StrCat(Quoted(name), " of program ", Quoted(s.name),
               " is gone: the program has not stepped, or another has "
               "been used since"));
  }
  if (value.is_leaf() && value.role == Role::kInput) {
    s.executable->ReadInput(*id, data);
    return {};
  }
  if (!value.on_host && !view.contiguous()) {
    return CopyOutStrided(*s.session->backend, view, data);
  }
  return s.session->CopyOut(value, data, view.data);
}

Result<float> Runner::ReadScalar(std::string_view name) const {
  float value = 0;
  STOWAGE_RETURN_IF_ERROR(Read(name, std::span<float>(&value, 1)));
  return value;
}

Result<float> Runner::ReadScalar(std::string_view name, uint64_t step) const {
  State& s = *state_;
  const auto scalars = s.program.scalars();
  const auto id = graph().Find(name);
  const auto found =
      id ? std::ranges::find(scalars, *id) : std::ranges::end(scalars);
  if (found == scalars.end()) {
    return SessionError(StrCat("program ", Quoted(s.name), " has no output ",
                               Quoted(name), " that is one f32 element"));
  }
  if (!s.Knows(step)) return Explain(StepCode::kStepUnknown);
  s.Settle(step);
  const KeptStep& kept = s.Kept(step);
  s.failed_node = kept.failed_node;
  if (kept.code != StepCode::kOk) return Explain(kept.code);
  return kept.scalars[static_cast<size_t>(found - scalars.begin())];
}

// --- Session -----------------------------------------------------------------

Session::Session(std::unique_ptr<State> state) : state_(std::move(state)) {}
Session::Session(Session&&) noexcept = default;
Session& Session::operator=(Session&&) noexcept = default;
Session::~Session() = default;

Bytes Session::arena_bytes() const { return state_->arena_bytes; }
Bytes Session::host_bytes() const { return state_->host_bytes; }
Backend& Session::backend() const { return *state_->backend; }
Runner& Session::front() { return state_->runners.front(); }

Runner* Session::Find(std::string_view name) {
  for (Runner& runner : state_->runners) {
    if (runner.name() == name) return &runner;
  }
  return nullptr;
}

Result<Session> Session::Create(std::vector<SessionProgram> programs,
                                Backend& backend,
                                const SessionOptions& options) {
  STOWAGE_RETURN_IF_ERROR(CheckPrograms(programs, backend));
  auto state = std::make_unique<State>();
  state->backend = &backend;
  state->poison = options.poison;
  for (const SessionProgram& program : programs) {
    state->arena_bytes =
        std::max(state->arena_bytes, program.plan.arena_bytes());
    state->host_bytes = std::max(state->host_bytes, program.plan.host_bytes());
    state->alignment = std::max(state->alignment, program.plan.alignment);
  }

  if (options.arena.empty()) {
    STOWAGE_ASSIGN_OR_RETURN(
        state->arena, backend.Allocate(state->arena_bytes, state->alignment));
    state->owned = true;
  } else {
    const auto address = reinterpret_cast<uintptr_t>(options.arena.data());
    if (static_cast<Bytes>(options.arena.size()) < state->arena_bytes ||
        address % static_cast<uintptr_t>(state->alignment) != 0) {
      return SessionError(
          StrCat("the arena given has ", options.arena.size(),
                 " bytes at an address that is ",
                 address % static_cast<uintptr_t>(state->alignment), " modulo ",
                 state->alignment, "; the plans need ", state->arena_bytes,
                 " bytes at a multiple of ", state->alignment));
    }
    STOWAGE_RETURN_IF_ERROR(backend.CheckArena(options.arena));
    state->arena = options.arena.data();
  }
  if (state->host_bytes > 0) {
    STOWAGE_ASSIGN_OR_RETURN(
        state->host, backend.AllocateHost(state->host_bytes, state->alignment));
  }
  if (state->poison) {
    STOWAGE_RETURN_IF_ERROR(
        backend.FillBytes(state->arena, state->arena_bytes, kPoison));
    if (state->host != nullptr) {
      STOWAGE_RETURN_IF_ERROR(
          backend.FillHost(state->host, state->host_bytes, kPoison));
    }
  }

  for (SessionProgram& source : programs) {
    STOWAGE_ASSIGN_OR_RETURN(
        Program program,
        Program::Resolve(std::move(source.graph), std::move(source.plan),
                         state->arena, state->host));
    auto runner = std::make_unique<Runner::State>(
        Runner::State{.name = std::move(source.name),
                      .program = std::move(program),
                      .executable = nullptr,
                      .session = state.get(),
                      .inputs = {},
                      .caches = {},
                      .unset = {},
                      .kept = {},
                      .deaths = {}});
    for (KeptStep& kept : runner->kept) {
      kept.scalars.resize(runner->program.scalars().size());
    }
    STOWAGE_ASSIGN_OR_RETURN(runner->executable, backend.Bind(runner->program));
    const Graph& graph = runner->program.graph();
    for (const Role role : {Role::kInput, Role::kSaved}) {
      for (const ValueId id : graph.Leaves(role)) {
        runner->inputs.push_back({id});
      }
    }
    runner->caches = graph.Leaves(Role::kCache);
    for (ValueId id = 0; id < graph.num_values(); ++id) {
      const ValueInfo& value = graph.value(id);
      if (IsPersistent(value)) runner->unset.insert(value.name);
    }
    if (state->poison)
      runner->deaths =
          DeathsAfterLaunches(runner->program.graph(), runner->program.plan(),
                              runner->program.launches());
    state->runners.push_back(Runner(std::move(runner)));
  }
  return Session(std::move(state));
}

void Session::Initialize(uint64_t seed) {
  state_->caches.clear();
  std::set<std::string_view> made;  // programs share them
  for (const Runner& runner : state_->runners) {
    const Graph& graph = runner.graph();
    for (ValueId id = 0; id < graph.num_values(); ++id) {
      const ValueInfo& value = graph.value(id);
      if (!IsPersistent(value) || !made.insert(value.name).second) continue;
      std::byte* const to = runner.state_->program.view(id).data;
      MakeInitialValues(
          value, seed, [&](Bytes begin, std::span<const std::byte> bytes) {
            // What fails here fails in the next step, which says so.
            static_cast<void>(state_->CopyIn(value, to + begin, bytes));
          });
    }
    runner.state_->unset.clear();
  }
}

Status Runner::State::Poison(const PlannedBuffer& buffer) {
  const Bytes address = program.plan().AddressOf(buffer);
  if (!IsOnHost(buffer.region)) {
    return session->backend->FillBytes(session->arena + address, buffer.size,
                                       kPoison);
  }
  return session->backend->FillHost(session->host + address, buffer.size,
                                    kPoison);
}

StepCode Runner::Step() noexcept { return Wait(Start()); }

StepCode Runner::StepTimed(std::span<double> seconds) noexcept {
  STOWAGE_CHECK(seconds.size() == static_cast<size_t>(graph().num_nodes()));
  STOWAGE_CHECK(!state_->session->poison);
  std::ranges::fill(seconds, 0);
  state_->seconds = seconds;
  const StepCode code = Step();
  state_->seconds = {};
  return code;
}

uint64_t Runner::Start() noexcept {
  State& s = *state_;
  if (s.started >= kStepsInFlight) s.Settle(s.started + 1 - kStepsInFlight);
  const uint64_t step = ++s.started;
  KeptStep& kept = s.Kept(step);
  kept.code = StepCode::kOk;
  kept.failed_node = kNoNode;
  const bool lacks_input = std::ranges::any_of(
      s.inputs, [](const RequiredInput& input) { return !input.written; });
  if (lacks_input || !s.unset.empty() || !keeps_caches()) {
    s.Settle(step - 1);
    kept.code = StepCode::kInputsMissing;
    s.settled = step;
    return step;
  }
  s.session->Occupy(&s);
  if (s.session->poison || !s.seconds.empty() || !s.executable->Start(step)) {
    s.Settle(step - 1);
    s.RunNow(&kept);
    s.settled = step;
  }
  for (RequiredInput& input : s.inputs) {
    // Saved values die at their last use; the next step needs them anew.
    if (graph().value(input.value).role == Role::kSaved) input.written = false;
  }
  return step;
}

StepCode Runner::Wait(uint64_t step) noexcept {
  State& s = *state_;
  if (!s.Knows(step)) return StepCode::kStepUnknown;
  s.Settle(step);
  s.failed_node = s.Kept(step).failed_node;
  return s.Kept(step).code;
}

void Runner::State::Settle(uint64_t last) noexcept {
  while (settled < last) {
    KeptStep& step = Kept(++settled);
    size_t failed = 0;
    const StepCode code = executable->Wait(settled, step.scalars, &failed);
    NoteFailure(code, failed, &step);
    stepped = code == StepCode::kOk;
  }
}

void Runner::State::NoteFailure(StepCode code, size_t failed,
                                KeptStep* step) noexcept {
  step->code = code;
  if (code != StepCode::kOk && failed < program.launches().size()) {
    step->failed_node = program.launches()[failed].node;
  }
}

void Runner::State::RunNow(KeptStep* step) noexcept {
  size_t failed = 0;
  StepCode code = session->poison ? RunPoisoned(&failed)
                  : !seconds.empty()
                      ? RunTimed(&failed)
                      : executable->Run(0, program.launches().size(), &failed);
  for (size_t i = 0; code == StepCode::kOk && i < step->scalars.size(); ++i) {
    const Status copied = session->backend->CopyOut(
        std::as_writable_bytes(std::span(&step->scalars[i], 1)),
        program.view(program.scalars()[i]).data);
    if (!copied.ok()) {
      code = StepCode::kDeviceFault;
      failed = program.launches().size();
    }
  }
  NoteFailure(code, failed, step);
  stepped = code == StepCode::kOk;
}

StepCode Runner::State::RunPoisoned(size_t* failed) noexcept {
  const Plan& plan = program.plan();
  // A program of views alone has no launches, but its inputs must still be copied.
  if (program.launches().empty()) return executable->Run(0, 0, failed);
  for (size_t i = 0; i < program.launches().size(); ++i) {
    const StepCode code = executable->RunPoisoned(i, kPoison, failed);
    if (code != StepCode::kOk) return code;
    for (const int32_t index : deaths[i]) {
      if (Poison(plan.buffers[static_cast<size_t>(index)]).ok()) continue;
      *failed = i;
      return StepCode::kDeviceFault;
    }
  }
  return StepCode::kOk;
}

StepCode Runner::State::RunTimed(size_t* failed) noexcept {
  using Clock = std::chrono::steady_clock;
  // A program of views alone has no launches, but its inputs must still be copied.
  if (program.launches().empty()) return executable->Run(0, 0, failed);
  Clock::time_point before = Clock::now();
  for (size_t i = 0; i < program.launches().size(); ++i) {
    const StepCode code = executable->Run(i, i + 1, failed);
    if (code != StepCode::kOk) return code;
    const Clock::time_point now = Clock::now();
    seconds[static_cast<size_t>(program.launches()[i].node)] =
        std::chrono::duration<double>(now - before).count();
    before = now;
  }
  return StepCode::kOk;
}

Error Runner::Explain(StepCode code) const {
  const State& s = *state_;
  const std::string program = StrCat("program ", Quoted(s.name));
  const std::string node = s.failed_node == kNoNode
                               ? std::string()
                               : " at " + graph().Describe(s.failed_node);
  switch (code) {
    case StepCode::kOk:
      return SessionError(
          StrCat(program, " has nothing to explain: the step was ok"));
    case StepCode::kIndexOutOfRange:
      return SessionError(
          StrCat(program, " failed", node,
                 ": an index or label is outside its range; check the "
                 "integer inputs"));
    case StepCode::kNonFinite:
      return {ErrorCode::kNotFinite,
              StrCat("[session] ", program, " failed", node,
                     ": the result holds NaN or infinity, and is the first "
                     "that does")};
    case StepCode::kDeviceFault:
      return {
          ErrorCode::kDevice,
          StrCat("[session] ", program, " failed on the device", node, ": ",
                 s.executable->fault(),
                 node.empty() ? "; a run that checks every op names it" : "")};
    case StepCode::kRankLost:
      return {ErrorCode::kRankLost,
              StrCat("[session] ", program, " failed", node,
                     ": a rank of the step was lost, or the link to it")};
    case StepCode::kStepUnknown:
      return SessionError(
          StrCat(program, " has started ", s.started,
                 " steps and was asked for another, or for one that "
                 "is not among the last ",
                 kStepsInFlight));
    case StepCode::kInputsMissing:
      for (const std::string_view name : s.unset) {
        return SessionError(
            StrCat(program, " was stepped and its ",
                   RoleName(graph().value(*graph().Find(name)).role), " ",
                   Quoted(name),
                   " has no values yet; call Session::Initialize, or "
                   "write or load all params and states"));
      }
      for (const RequiredInput& input : s.inputs) {
        if (input.written) continue;
        return SessionError(
            StrCat(program, " was stepped without ",
                   RoleName(graph().value(input.value).role), " ",
                   Quoted(graph().value(input.value).name),
                   ": it was never written, or another program has "
                   "been used since; write it before the step"));
      }
      for (const ValueId id : s.caches) {
        if (s.Keeps(id)) continue;
        return SessionError(
            StrCat(program, " was stepped without what it keeps in ",
                   Quoted(graph().value(id).name),
                   ": it was never cleared, or a program without that "
                   "cache has been used since; call ClearCaches and "
                   "begin anew"));
      }
      return SessionError(StrCat(program, " has all of its inputs now"));
  }
  STOWAGE_CHECK(false);
}

}  // namespace stowage
