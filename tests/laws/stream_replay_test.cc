// Law: the stream of a step is all it takes to run the step. A machine that knows
// only what the stream says, from memory or as printed, allocates and kills the
// bytes it is told to and watches every launch: nothing overlaps, nothing is read
// that is dead or holds another value, and the most it ever takes is the plan's
// arena, to the byte. It shares no code with MakeStream: what a value's root is, it
// finds in the graph, and addresses are compared with those of a Program.

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "autodiff/train_step.h"
#include "base/strings.h"
#include "cpu/cpu_backend.h"
#include "ir/op_def.h"
#include "nn/models.h"
#include "planner/fit/fit.h"
#include "planner/fit/offload/offload.h"
#include "planner/plan_memory.h"
#include "planner/stream.h"
#include "report/text.h"
#include "runtime/program.h"
#include "tests/support/instances.h"
#include "tests/support/random_graph.h"

namespace stowage {
namespace {

using testing::Instances;

// --- The printed form, read back ---

// Reads one line of the printed form from the left.
class LineReader {
 public:
  explicit LineReader(std::string_view line) : rest_(line) {}

  bool Accept(std::string_view text) {
    if (!rest_.starts_with(text)) return false;
    rest_.remove_prefix(text.size());
    return true;
  }
  void Expect(std::string_view text) {
    if (!Accept(text)) FAIL("expected ", text, " before ", rest_);
  }
  bool AtEnd() const { return rest_.empty(); }
  void SkipBlanks() {
    while (Accept(" ")) {
    }
  }
  // A column and the blanks around it.
  std::string Word() {
    SkipBlanks();
    const size_t end = std::min(rest_.find(' '), rest_.size());
    const std::string word(rest_.substr(0, end));
    rest_.remove_prefix(end);
    SkipBlanks();
    return word;
  }
  int64_t Number() {
    size_t digits = 0;
    const int64_t number = std::stoll(std::string(rest_), &digits);
    rest_.remove_prefix(digits);
    return number;
  }
  // As it is, or in quotes with escapes.
  std::string Name() {
    if (!Accept("\"")) return Word();
    std::string name;
    while (!Accept("\"")) {
      if (Accept("\\n")) {
        name += '\n';
        continue;
      }
      Accept("\\");
      name += rest_.front();
      rest_.remove_prefix(1);
    }
    SkipBlanks();
    return name;
  }
  StreamPlace Place() {
    Expect("@");
    StreamPlace place;
    place.on_host = Accept("host:");
    place.address = Number();
    Expect("+");
    place.bytes = Number();
    return place;
  }
  std::vector<StreamValue> Values() {
    std::vector<StreamValue> values;
    do {
      StreamValue value;
      value.name = Name();
      value.root = Accept("of ") ? Name() : value.name;
      value.place = Place();
      value.in_place = Accept(" in place");
      values.push_back(value);
    } while (Accept(", "));
    return values;
  }

 private:
  std::string_view rest_;
};

// What the machine is told: an event, with names instead of ids.
struct Order {
  StreamEventKind kind = StreamEventKind::kAllocate;
  Time time = 0;
  std::string name;  // of the buffer or of the op
  StreamPlace place;
  std::vector<StreamValue> operands;
  std::vector<StreamValue> results;
  StreamPlace scratch;
  friend bool operator==(const Order&, const Order&) = default;
};

std::vector<Order> FromEvents(const Graph& graph, const Plan& plan) {
  std::vector<Order> orders;
  for (const StreamEvent& event : MakeStream(graph, plan)) {
    const bool launch = event.kind == StreamEventKind::kLaunch;
    orders.push_back(
        {event.kind, event.time,
         launch ? std::string(OpName(event.op))
                : plan.buffers[static_cast<size_t>(event.buffer)].name,
         event.place, event.operands, event.results, event.scratch});
  }
  return orders;
}

struct Printed {
  Bytes arena = 0;
  Bytes host = 0;
  Bytes alignment = 0;
  std::vector<Order> orders;
};

Order ReadOrder(std::string_view line) {
  LineReader read(line);
  Order order;
  order.time = std::stoll(read.Word());
  const std::string kind = read.Word();
  const std::string memory = read.Word();
  const std::string address = read.Word();
  const std::string bytes = read.Word();
  if (kind == "launch") {
    order.kind = StreamEventKind::kLaunch;
    order.name = read.Word();
    order.results = read.Values();
    if (read.Accept(" <- ")) order.operands = read.Values();
    if (read.Accept(" with scratch ")) order.scratch = read.Place();
  } else {
    if (kind != "allocate" && kind != "kill") FAIL("no such event: ", kind);
    order.kind =
        kind == "kill" ? StreamEventKind::kKill : StreamEventKind::kAllocate;
    if (memory != "arena" && memory != "host") FAIL("no memory: ", memory);
    order.place = {memory == "host", std::stoll(address), std::stoll(bytes)};
    read.Word();  // the region
    order.name = read.Name();
  }
  if (!read.AtEnd()) FAIL("a line goes on: ", line);
  return order;
}

Printed FromText(std::string_view text) {
  Printed printed;
  for (int row = 0; !text.empty(); ++row) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(line.size() + 1);
    if (row == 0) {
      LineReader read(line);
      read.Expect("stream of ");
      read.Name();
      read.Expect(": arena ");
      printed.arena = read.Number();
      read.Expect(" bytes, host ");
      printed.host = read.Number();
      read.Expect(" bytes, slots of ");
      printed.alignment = read.Number();
      read.Expect(" bytes");
    } else if (row > 1) {
      printed.orders.push_back(ReadOrder(line));
    }
  }
  return printed;
}

// --- The machine ---

// The value whose bytes each value is made of, by name.
std::map<std::string, std::string> RootsOf(const Graph& graph) {
  std::map<std::string, std::string> roots;
  for (const ValueInfo& value : graph.values()) {
    roots[value.name] = value.name;
  }
  for (const Node& node : graph.nodes()) {
    const OpDef& def = GetOpDef(node.op);
    for (size_t r = 0; r < node.results.size(); ++r) {
      const bool updates = static_cast<int>(r) < def.updates;
      if (!def.is_view() && !updates) continue;
      const ValueId input = node.inputs[updates ? r : 0];
      roots[graph.value(node.results[r]).name] = roots[graph.value(input).name];
    }
  }
  return roots;
}

bool Overlap(const StreamPlace& a, const StreamPlace& b) {
  return a.on_host == b.on_host && a.address < b.address + b.bytes &&
         b.address < a.address + a.bytes;
}

class Machine {
 public:
  Machine(const Graph& graph, Bytes alignment)
      : graph_(graph), alignment_(alignment), roots_(RootsOf(graph)) {
    for (const Node& node : graph.nodes()) {
      if (!GetOpDef(node.op).is_view()) launches_.push_back(&node);
    }
  }

  // What is wrong first, "" when nothing is.
  std::string Run(const std::vector<Order>& orders) {
    Time now = 0;
    for (const Order& order : orders) {
      Must(order.time >= now, "comes after a later time");
      now = order.time;
      if (order.kind == StreamEventKind::kAllocate) Allocate(order);
      if (order.kind == StreamEventKind::kLaunch) Launch(order);
      if (order.kind == StreamEventKind::kKill) Kill(order);
      if (!wrong_.empty()) {
        return StrCat("time ", order.time, ", ", StreamEventName(order.kind),
                      " ", order.name, ": ", wrong_);
      }
    }
    if (launched_ < launches_.size()) return "not all nodes were launched";
    if (!live_[0].empty() || !live_[1].empty()) return "something is left";
    return "";
  }

  // Ends of slots and sums of live slots, the largest of all times, in the arena
  // (0) and on the host (1).
  Bytes highest(size_t memory) const { return highest_[memory]; }
  Bytes most_live(size_t memory) const { return most_live_[memory]; }

 private:
  struct Slot {
    std::string buffer;
    Bytes bytes = 0;
    Bytes end = 0;        // padding included
    std::string content;  // the value that was written last, none: ""
  };

  // Notes that `what` is wrong unless `holds`; the first is kept.
  void Must(bool holds, std::string_view what) {
    if (!holds && wrong_.empty()) wrong_ = what;
  }

  Bytes Padded(Bytes bytes) const {
    return (bytes + alignment_ - 1) / alignment_ * alignment_;
  }

  void Allocate(const Order& order) {
    const size_t memory = order.place.on_host ? 1 : 0;
    const Bytes begin = order.place.address;
    const Bytes size = Padded(order.place.bytes);
    Must(begin % alignment_ == 0, "is not aligned");
    const auto after = live_[memory].lower_bound(begin);
    Must(after == live_[memory].end() || begin + size <= after->first,
         "overlaps what lies above");
    Must(
        after == live_[memory].begin() || std::prev(after)->second.end <= begin,
        "overlaps what lies below");
    // Leaves are there before the step; all else holds nothing yet.
    const auto leaf = graph_.Find(order.name);
    const bool filled = leaf && graph_.value(*leaf).is_leaf();
    live_[memory][begin] = {order.name, order.place.bytes, begin + size,
                            filled ? order.name : ""};
    live_bytes_[memory] += size;
    most_live_[memory] = std::max(most_live_[memory], live_bytes_[memory]);
    highest_[memory] = std::max(highest_[memory], begin + size);
  }

  void Kill(const Order& order) {
    const size_t memory = order.place.on_host ? 1 : 0;
    const auto slot = live_[memory].find(order.place.address);
    if (slot == live_[memory].end()) return Must(false, "is not alive");
    Must(slot->second.buffer == order.name &&
             slot->second.bytes == order.place.bytes,
         "is another buffer's place");
    live_bytes_[memory] -= Padded(order.place.bytes);
    live_[memory].erase(slot);
  }

  // The live slot that all of `place` lies in, or null.
  Slot* SlotAt(const StreamPlace& place) {
    auto& memory = live_[place.on_host ? 1 : 0];
    const auto after = memory.upper_bound(place.address);
    if (after == memory.begin() || place.bytes <= 0) return nullptr;
    const auto slot = std::prev(after);
    const Bytes end = slot->first + slot->second.bytes;
    return place.address + place.bytes <= end ? &slot->second : nullptr;
  }

  void Launch(const Order& order) {
    if (launched_ == launches_.size()) return Must(false, "is one too many");
    const Node& node = *launches_[launched_++];
    if (order.name != OpName(node.op) ||
        order.operands.size() != node.inputs.size() ||
        order.results.size() != node.results.size()) {
      return Must(false, "is not the graph's next node");
    }
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      const StreamValue& operand = order.operands[i];
      const Slot* slot = SlotAt(operand.place);
      Must(operand.name == graph_.value(node.inputs[i]).name &&
               operand.root == roots_.at(operand.name),
           StrCat("operand ", operand.name, " has another name or root"));
      Must(slot != nullptr, StrCat("reads dead bytes as ", operand.name));
      Must(slot != nullptr && slot->content == operand.root,
           StrCat("reads another value as ", operand.name));
      Must(!operand.in_place, "has an operand in place");
    }
    std::vector<StreamPlace> written;
    for (size_t r = 0; r < node.results.size(); ++r) {
      const StreamValue& result = order.results[r];
      const ValueInfo& value = graph_.value(node.results[r]);
      Must(result.name == value.name && result.root == roots_.at(value.name),
           StrCat("result ", result.name, " has another name or root"));
      Must(result.place.bytes == value.type.bytes(),
           StrCat("result ", result.name, " has not all its bytes"));
      const bool over =
          std::ranges::any_of(order.operands, [&](const StreamValue& operand) {
            return Overlap(operand.place, result.place);
          });
      Must(over == result.in_place,
           StrCat("result ", result.name,
                  " is told wrongly to be in place, or "
                  "not to be"));
      written.push_back(result.place);
    }
    if (order.scratch.bytes > 0) {
      const Slot* slot = SlotAt(order.scratch);
      Must(slot != nullptr && slot->content.empty(), "has no scratch");
      for (const StreamValue& operand : order.operands) {
        Must(!Overlap(operand.place, order.scratch), "reads its scratch");
      }
      written.push_back(order.scratch);
    }
    for (size_t a = 0; a < written.size(); ++a) {
      for (size_t b = 0; b < a; ++b) {
        Must(!Overlap(written[a], written[b]), "writes bytes twice");
      }
    }
    for (const StreamValue& result : order.results) {
      Slot* slot = SlotAt(result.place);
      Must(slot != nullptr, StrCat("writes dead bytes as ", result.name));
      if (slot != nullptr) slot->content = result.root;
    }
    if (launched_ == launches_.size()) CheckWhatSurvives();
  }

  // After the last launch the caller reads the outputs, and the next step what
  // persists.
  void CheckWhatSurvives() {
    std::vector<std::string> contents;
    for (const auto& memory : live_) {
      for (const auto& [begin, slot] : memory) contents.push_back(slot.content);
    }
    const auto check = [&](const std::string& name) {
      Must(std::ranges::count(contents, roots_.at(name)) == 1,
           StrCat(name, " is not there at the end"));
    };
    for (const GraphOutput& output : graph_.outputs()) {
      check(graph_.value(output.value).name);
    }
    for (const ValueInfo& value : graph_.values()) {
      if (value.is_leaf() && value.role != Role::kSaved) check(value.name);
    }
  }

  const Graph& graph_;
  const Bytes alignment_;
  const std::map<std::string, std::string> roots_;
  std::vector<const Node*> launches_;
  size_t launched_ = 0;
  std::array<std::map<Bytes, Slot>, 2> live_;  // arena, host; by first byte
  std::array<Bytes, 2> live_bytes_ = {};
  std::array<Bytes, 2> most_live_ = {};
  std::array<Bytes, 2> highest_ = {};
  std::string wrong_;
};

// Runs the stream of `plan`, as it is and as printed. The lower bound counts slots
// with their padding, as the sum of live slots here does.
void CheckReplay(const Graph& graph, const Plan& plan) {
  const std::vector<Order> orders = FromEvents(graph, plan);
  const Printed printed = FromText(ToStreamText(graph, plan));
  CHECK(printed.arena == plan.arena_bytes());
  CHECK(printed.host == plan.host_bytes());
  CHECK(printed.alignment == plan.alignment);
  CHECK(printed.orders == orders);
  for (const std::vector<Order>& stream : {orders, printed.orders}) {
    Machine machine(graph, plan.alignment);
    CHECK(machine.Run(stream) == "");
    CHECK(machine.highest(0) == plan.arena_bytes());
    CHECK(machine.highest(1) == plan.host_bytes());
    CHECK(machine.most_live(0) == plan.lower_bound);
  }
}

// Operands and results lie where a session would have its kernels find them.
void CheckAddresses(const Graph& graph, const Plan& plan) {
  const auto align = static_cast<size_t>(plan.alignment);
  const auto block = [&](Bytes bytes) {
    return std::vector<std::byte>(static_cast<size_t>(bytes) + align);
  };
  std::vector<std::byte> arena_block = block(plan.arena_bytes());
  std::vector<std::byte> host_block = block(plan.host_bytes());
  const auto base_of = [&](std::vector<std::byte>& bytes) {
    void* start = bytes.data();
    size_t space = bytes.size();
    std::align(align, bytes.size() - align, start, space);
    return static_cast<std::byte*>(start);
  };
  std::byte* const arena = base_of(arena_block);
  std::byte* const host = base_of(host_block);
  const auto program = Program::Resolve(graph, plan, arena, host);
  REQUIRE_MESSAGE(program.ok(), program.error().message);
  int elsewhere = 0;
  const auto check = [&](const StreamPlace& place, const std::byte* data) {
    elsewhere += data - (place.on_host ? host : arena) != place.address;
  };
  size_t at = 0;
  for (const StreamEvent& event : MakeStream(graph, plan)) {
    if (event.kind != StreamEventKind::kLaunch) continue;
    REQUIRE(at < program->launches().size());
    const Launch& launch = program->launches()[at++];
    elsewhere += launch.node != event.node;
    for (size_t i = 0; i < launch.inputs.size(); ++i) {
      check(event.operands[i].place, launch.inputs[i].data);
    }
    for (size_t i = 0; i < launch.outputs.size(); ++i) {
      check(event.results[i].place, launch.outputs[i].data);
    }
    elsewhere +=
        launch.workspace.size() != static_cast<size_t>(event.scratch.bytes);
    if (event.scratch.bytes > 0) check(event.scratch, launch.workspace.data());
  }
  CHECK(elsewhere == 0);
  CHECK(at == program->launches().size());
}

Graph StepOf(std::string_view model, int64_t batch, int64_t seq) {
  ModelOptions options{.batch = batch};
  if (seq > 0) options.seq = seq;
  const auto forward = BuildModel(model, ModelPurpose::kTrain, options);
  REQUIRE_MESSAGE(forward.ok(), forward.error().message);
  const auto step = BuildTrainStep(*forward, "loss");
  REQUIRE_MESSAGE(step.ok(), step.error().message);
  return *step;
}

TEST_CASE("the streams of the models' steps replay in exactly the arena") {
  const auto cpu = MakeCpuBackend({.threads = 2});
  PlanOptions options{.device = cpu->Needs()};
  options.device.reserve = [](const Graph&, Bytes) { return Bytes{1000}; };
  for (const auto& each :
       {std::tuple{"mlp", 32, 0}, std::tuple{"gpt-nano", 4, 32},
        std::tuple{"gpt2-124m", 1, 64}}) {
    const std::string model = std::get<0>(each);
    CAPTURE(model);
    const Graph step = StepOf(model, std::get<1>(each), std::get<2>(each));
    const Result<Plan> plan = PlanMemory(step, options);
    REQUIRE_MESSAGE(plan.ok(), plan.error().message);
    CheckReplay(step, *plan);
    if (model != "gpt2-124m") CheckAddresses(step, *plan);
  }
}

TEST_CASE(
    "so do those of 100 random steps, some recomputed, all offloaded too") {
  const auto cpu = MakeCpuBackend({.threads = 1});
  const PlanOptions options{.device = cpu->Needs()};
  int recomputed = 0, on_host = 0;
  for (uint64_t seed = 0; seed < Instances(100u); ++seed) {
    INFO("seed ", seed);
    const Graph step = testing::MakeRandomStep(seed);
    const Result<Plan> plan = PlanMemory(step, options);
    REQUIRE_MESSAGE(plan.ok(), plan.error().message);
    CheckReplay(step, *plan);
    CheckAddresses(step, *plan);

    if (seed % 4 == 0) {  // what takes the longest to plan
      StepFitter fitter(OfGraph(step),
                        {.plan = options,
                         .optimizations = {.offload = OffloadChoice::kNone}});
      const auto smallest = fitter.Fit(*fitter.SmallestBudget());
      REQUIRE_MESSAGE(smallest.ok(), smallest.error().message);
      recomputed += smallest->price.recomputed_nodes > 0;
      CheckReplay(smallest->graph, smallest->plan);
    }

    const auto moved = fit::Offload(step, fit::FindOffloadable(step));
    REQUIRE_MESSAGE(moved.ok(), moved.error().message);
    const Result<Plan> moved_plan = PlanMemory(*moved, options);
    REQUIRE_MESSAGE(moved_plan.ok(), moved_plan.error().message);
    on_host += moved_plan->host_bytes() > 0;
    CheckReplay(*moved, *moved_plan);
    CheckAddresses(*moved, *moved_plan);
  }
  CHECK(recomputed > Instances(15));
  CHECK(on_host > Instances(80));
}

}  // namespace
}  // namespace stowage
