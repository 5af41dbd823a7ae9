#include "tests/gpu/ptx/ptx_machine.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <numeric>
#include <utility>

#include "base/strings.h"
#include "tests/gpu/ptx/ptx_bulk_copies.h"
#include "tests/gpu/ptx/ptx_mbarriers.h"
#include "tests/gpu/ptx/ptx_order.h"
#include "tests/gpu/ptx/ptx_warpgroups.h"

namespace stowage::testing::ptx {
namespace {

// A warp that executes more in a block does not end.
constexpr int64_t kMaxInstructions = int64_t{1} << 28;

// All warps wait, and have looked so often at mbarriers that do not change.
constexpr int kMaxRoundsInVain = 256;

uint64_t Draw(uint64_t* state) {  // splitmix64
  uint64_t x = *state += 0x9E3779B97F4A7C15;
  x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9;
  x = (x ^ x >> 27) * 0x94D049BB133111EB;
  return x ^ x >> 31;
}

std::string LanesOf(uint32_t lanes) {
  std::string text;
  for (int i = 0; i < kLanes; ++i) {
    if ((lanes >> i & 1) != 0) text += StrCat(text.empty() ? "" : " ", i);
  }
  return text;
}

constexpr size_t kAlignment = 64;

}  // namespace

void Warp::Report(const std::string& what) {
  if (block->wrong.empty()) block->wrong = what;
}

void Warp::CheckUnwritten(const Slot& slot) {
  if (products != nullptr && products->registers[slot.number].is_under_way()) {
    return Report("a register of a product that was not waited for is read");
  }
  if (lane_wise) return;
  Report(StrCat("lanes ", LanesOf(mask & ~written[slot.number]),
                " read a register that they never wrote"));
}

void Machine::Blame(const Kernel& kernel, uint32_t at,
                    const std::string& what) {
  if (!wrong_.empty()) return;
  const Instruction& in = kernel.code[at];
  wrong_ = StrCat("[ptx] ", kernel.name, " at ",
                  kernel.lines[static_cast<size_t>(in.line)], " (line ",
                  in.line, " of the entry): ", what);
}

std::string Machine::Run(const GridCall& call, const MachineOptions& options) {
  const Kernel& kernel = *call.kernel;
  wrong_.clear();
  if (call.params.size() != kernel.param_bytes) {
    return StrCat("[ptx] ", kernel.name, " takes ", kernel.param_bytes,
                  " bytes of params and was given ", call.params.size());
  }
  if (call.threads == 0 || call.threads % kLanes != 0 ||
      call.threads > kernel.max_threads) {
    return StrCat("[ptx] ", kernel.name, " was launched with ", call.threads,
                  " threads a block; expected a multiple of 32 up to ",
                  kernel.max_threads);
  }
  memory_.BeginGrid(call.memory);
  std::vector<uint64_t> blocks(static_cast<size_t>(call.grid_x) * call.grid_y);
  std::iota(blocks.begin(), blocks.end(), uint64_t{0});
  uint64_t random = options.seed;
  if (options.seed != 0) {
    for (size_t i = blocks.size(); i > 1; --i) {
      std::swap(blocks[i - 1], blocks[Draw(&random) % i]);
    }
  }
  for (const uint64_t block : blocks) {
    RunBlock(call, static_cast<uint32_t>(block % call.grid_x),
             static_cast<uint32_t>(block / call.grid_x), options, &random);
    if (!wrong_.empty()) {
      return StrCat(wrong_, "; in block ", block, " of ", blocks.size());
    }
  }
  return {};
}

void Machine::Start(const GridCall& call, uint32_t x, uint32_t y, size_t warp) {
  const Kernel& kernel = *call.kernel;
  const size_t register_bytes =
      (kernel.register_bytes + kAlignment - 1) / kAlignment * kAlignment;
  auto base = reinterpret_cast<uintptr_t>(registers_.data());
  base = (base + kAlignment - 1) / kAlignment * kAlignment;
  WarpState& state = warps_[warp];
  state.warp = {
      .registers = reinterpret_cast<std::byte*>(base + warp * register_bytes),
      .written = written_.data() + warp * kernel.registers,
      .constants = kernel.constants.data(),
      .block = &block_,
      .number = static_cast<int>(warp),
      .products = kernel.has_products ? &block_.products[warp] : nullptr};
  state.groups[0] = {.at = 0, .lanes = kAllLanes};
  state.count = 1;
  state.executed = 0;
  state.waits = Waits::kNot;
  const auto set = [&](Special special, auto value) {
    auto* const to = reinterpret_cast<uint32_t*>(state.warp.registers +
                                                 SpecialOffset(special));
    for (uint32_t lane = 0; lane < kLanes; ++lane) to[lane] = value(lane);
    state.warp.written[static_cast<size_t>(special)] = kAllLanes;
  };
  set(Special::kTid, [&](uint32_t lane) {
    return static_cast<uint32_t>(warp) * kLanes + lane;
  });
  set(Special::kNtid, [&](uint32_t) { return call.threads; });
  set(Special::kCtaid, [&](uint32_t) { return x; });
  set(Special::kCtaidY, [&](uint32_t) { return y; });
  set(Special::kNctaid, [&](uint32_t) { return call.grid_x; });
}

void Machine::RunBlock(const GridCall& call, uint32_t x, uint32_t y,
                       const MachineOptions& options, uint64_t* random) {
  const Kernel& kernel = *call.kernel;
  const size_t warps = call.threads / kLanes;
  memory_.BeginBlock(call.dynamic_shared == 0
                         ? kernel.static_shared
                         : kernel.dynamic_at + call.dynamic_shared,
                     static_cast<int>(warps));
  block_.memory = &memory_;
  block_.params = call.params;
  block_.param_alignment = kernel.param_alignment;
  block_.mbarriers = {};
  block_.bulk_copies.clear();
  changes_ = rounds_in_vain_ = 0;
  block_.copies.assign(warps, {});
  Products none;
  none.registers.resize(kernel.has_products ? kernel.registers : 0);
  block_.products.assign(kernel.has_products ? warps : 0, none);
  barriers_ = {};
  block_.wrong.clear();
  warps_.resize(warps);
  const size_t bytes =
      (kernel.register_bytes + kAlignment) * warps + kAlignment;
  if (registers_.size() < bytes) registers_.resize(bytes);
  written_.assign(kernel.registers * warps, 0);
  for (size_t warp = 0; warp < warps; ++warp) Start(call, x, y, warp);
  std::vector<size_t> ready;
  while (wrong_.empty()) {
    if (!block_.bulk_copies.empty() && options.seed != 0 &&
        Draw(random) % 4 == 0) {
      RunCopy(kernel, options, random);
      continue;
    }
    for (WarpState& state : warps_) {
      // Who waits for an mbarrier may look again at any time.
      if (state.waits == Waits::kMbarrier && options.seed != 0 &&
          Draw(random) % 8 == 0) {
        state.waits = Waits::kNot;
      }
    }
    ready.clear();
    for (size_t warp = 0; warp < warps; ++warp) {
      if (warps_[warp].count > 0 && warps_[warp].waits == Waits::kNot) {
        ready.push_back(warp);
      }
    }
    if (ready.empty()) {
      if (std::ranges::all_of(warps_, [](const WarpState& state) {
            return state.count == 0;
          })) {
        return BlameCopies(kernel);
      }
      if (std::ranges::any_of(warps_, [](const WarpState& state) {
            return state.waits == Waits::kMbarrier;
          })) {
        MeetMbarriers(kernel, options, random);
      } else {
        MeetBarrier(kernel);
      }
      continue;
    }
    size_t warp = ready[0];
    int64_t turns = kMaxInstructions + 1;
    if (options.seed != 0) {
      warp = ready[Draw(random) % ready.size()];
      if (!options.warp_by_warp &&
          (ready.size() > 1 || !block_.mbarriers.at.empty())) {
        turns = static_cast<int64_t>(1 + Draw(random) % 64);
      }
    }
    RunWarp(kernel, &warps_[warp], turns);
  }
}

void Machine::RunCopy(const Kernel& kernel, const MachineOptions& options,
                      uint64_t* random) {
  auto& copies = block_.bulk_copies;
  const size_t drawn = options.seed == 0 ? 0 : Draw(random) % copies.size();
  const BulkCopy copy = copies[drawn];
  copies.erase(copies.begin() + static_cast<std::ptrdiff_t>(drawn));
  const std::string wrong = RunBulkCopy(block_, copy);
  if (wrong.empty()) return;
  Blame(kernel, static_cast<uint32_t>(copy.in - kernel.code.data()), wrong);
}

void Machine::MeetMbarriers(const Kernel& kernel, const MachineOptions& options,
                            uint64_t* random) {
  if (!block_.bulk_copies.empty()) return RunCopy(kernel, options, random);
  const int64_t changes = block_.mbarriers.changes;
  if (std::exchange(changes_, changes) != changes) rounds_in_vain_ = 0;
  if (++rounds_in_vain_ > kMaxRoundsInVain) return BlameStuck(kernel);
  for (WarpState& state : warps_) {
    if (state.waits == Waits::kMbarrier) state.waits = Waits::kNot;
  }
}

void Machine::BlameCopies(const Kernel& kernel) {
  if (!block_.bulk_copies.empty()) {
    const BulkCopy& copy = block_.bulk_copies[0];
    return Blame(kernel, static_cast<uint32_t>(copy.in - kernel.code.data()),
                 StrCat("the block ends while this copy is under way, of ",
                        copy.bytes, " bytes to ", copy.to));
  }
  const std::string wrong = CopiesNotWaitedFor(block_.mbarriers);
  if (!wrong.empty()) {
    Blame(kernel, static_cast<uint32_t>(kernel.code.size() - 1), wrong);
  }
}

void Machine::ComeToBarrier(const Kernel& kernel, WarpState* state,
                            uint32_t at) {
  Warp& warp = state->warp;
  const Instruction& in = kernel.code[at];
  bool agree = true;
  const auto read = [&](const Slot& slot) {
    const auto* lanes = warp.Read<uint32_t>(slot);
    const uint32_t value = lanes[std::countr_zero(warp.mask)];
    for (int i = 0; i < kLanes; ++i) {
      agree &= (warp.mask >> i & 1) == 0 || lanes[i] == value;
    }
    return value;
  };
  const uint32_t id = read(in.slots[0]);
  const uint32_t threads = in.count > 1 ? read(in.slots[1]) : 0;
  if (!agree) {
    return Blame(kernel, at, "a barrier that the lanes do not agree in");
  }
  const auto all = static_cast<uint32_t>(warps_.size() * kLanes);
  if (id >= barriers_.size() ||
      (in.count > 1 &&
       (threads == 0 || threads % kLanes != 0 || threads > all))) {
    return Blame(
        kernel, at,
        StrCat("barrier ", id, " for ", threads, " threads, in a block of ",
               all, "; expected one below ", barriers_.size(),
               ", and a multiple of ", kLanes));
  }
  Barrier& barrier = barriers_[id];
  if (barrier.arrivals.empty()) {
    barrier.threads = threads;
    barrier.at = at;
  } else if (barrier.threads != threads) {
    return Blame(
        kernel, at,
        StrCat("barrier ", id, " for ", threads, " threads (0: all), and for ",
               barrier.threads, " at line ", kernel.code[barrier.at].line));
  }
  for (const Barrier::Arrival& arrival : barrier.arrivals) {
    if (arrival.warp != warp.number) continue;
    return Blame(kernel, at,
                 StrCat("warp ", warp.number, " comes to barrier ", id,
                        " again before it has opened"));
  }
  const bool waits = in.operation->flow == Flow::kBarrier;
  if (waits) {
    state->waits = Waits::kBarrier;
    state->at = at;
  }
  // Who comes to one for all only waits: Open orders all at once.
  barrier.arrivals.push_back(
      {warp.number, waits,
       threads == 0 ? Clock()
                    : memory_.order().Release(warp.number, kAllLanes)});
  if (barrier.arrivals.size() * kLanes == threads) Open(&barrier);
}

void Machine::Open(Barrier* barrier) {
  rounds_in_vain_ = 0;
  Order& order = memory_.order();
  if (barrier->threads == 0) {
    order.Barrier();
  } else {
    for (const Barrier::Arrival& one : barrier->arrivals) {
      if (!one.waits) continue;
      for (const auto& other : barrier->arrivals) {
        order.Acquire(one.warp, kAllLanes, other.clock);
      }
      order.SyncWarp(one.warp);
    }
  }
  for (const Barrier::Arrival& one : barrier->arrivals) {
    if (one.waits) warps_[static_cast<size_t>(one.warp)].waits = Waits::kNot;
  }
  barrier->arrivals.clear();
}

// Those that have ended need not come.
void Machine::MeetBarrier(const Kernel& kernel) {
  const auto has_not_ended = [](const WarpState& state) {
    return state.count != 0;
  };
  const WarpState& first = *std::ranges::find_if(warps_, has_not_ended);
  for (const WarpState& state : warps_) {
    if (!has_not_ended(state)) continue;
    const Instruction& in = kernel.code[state.at];
    if (state.waits != Waits::kBarrier || in.count > 1) {
      return BlameStuck(kernel);
    }
    if (state.at != first.at) {
      return Blame(kernel, state.at,
                   StrCat("warps wait in different places; others at line ",
                          kernel.code[first.at].line));
    }
  }
  for (Barrier& barrier : barriers_) {
    if (!barrier.arrivals.empty() && barrier.threads == 0) Open(&barrier);
  }
}

void Machine::BlameStuck(const Kernel& kernel) {
  std::string who;
  const WarpState* first = nullptr;
  for (const WarpState& state : warps_) {
    const bool has_ended = state.count == 0;
    if (!has_ended && first == nullptr) first = &state;
    who += StrCat(who.empty() ? "" : ", ", state.warp.number,
                  has_ended ? " has ended"
                            : StrCat(" at line ", kernel.code[state.at].line));
    if (!has_ended && state.waits == Waits::kMbarrier) {
      who += StrCat(" for ", NameOf(block_.mbarriers, state.mbarrier));
    }
  }
  Blame(kernel, first->at,
        StrCat("warps wait for ever, for a barrier, an mbarrier or the rest of "
               "a warpgroup: ",
               who));
}

void Machine::ComeToProduct(const Kernel& kernel, WarpState* state,
                            uint32_t at) {
  state->waits = Waits::kWarpgroup;
  state->at = at;
  const size_t warp = static_cast<size_t>(state->warp.number);
  const size_t first = warp / kWarpgroupWarps * kWarpgroupWarps;
  if (first + kWarpgroupWarps > warps_.size()) {
    return Blame(kernel, at,
                 StrCat("a product of warps ", first, " to ",
                        first + kWarpgroupWarps - 1, " in a block of ",
                        warps_.size(), " warps"));
  }
  std::array<Warp*, kWarpgroupWarps> warps;
  bool have_all_come = true;
  for (size_t i = 0; i < kWarpgroupWarps; ++i) {
    WarpState& other = warps_[first + i];
    warps[i] = &other.warp;
    have_all_come &= other.waits == Waits::kWarpgroup;
    if (other.waits == Waits::kWarpgroup && other.at != at) {
      return Blame(kernel, at,
                   StrCat("warp ", warp, " comes to this product, and warp ",
                          first + i, " of its warpgroup to that at line ",
                          kernel.code[other.at].line));
    }
  }
  if (!have_all_come) return;
  for (Warp* const one : warps) {
    one->lane_wise = false;
    one->unwritten = 0;
    warps_[static_cast<size_t>(one->number)].waits = Waits::kNot;
  }
  RunProduct(warps, kernel.code[at]);
  if (!block_.wrong.empty()) Blame(kernel, at, block_.wrong);
}

// The lanes that are furthest behind and can go on; lanes that meet are joined.
Machine::Group* Machine::Choose(WarpState* state) {
  if (state->count == 1) {
    Group& only = state->groups[0];
    return only.waits || only.polled ? nullptr : &only;
  }
  for (int i = 0; i < state->count; ++i) {
    for (int j = i + 1; j < state->count;) {
      Group& a = state->groups[i];
      Group& b = state->groups[j];
      if (a.at != b.at) {
        ++j;
        continue;
      }
      a.lanes |= b.lanes;
      a.waits = a.polled = false;
      b = state->groups[--state->count];
    }
  }
  Group* chosen = nullptr;
  for (int i = 0; i < state->count; ++i) {
    Group& group = state->groups[i];
    if (group.waits || group.polled) continue;
    if (chosen == nullptr || group.at < chosen->at) chosen = &group;
  }
  return chosen;
}

bool Machine::WaitsForMbarrier(WarpState* state) {
  bool polled = false;
  for (int i = 0; i < state->count; ++i) {
    polled |= std::exchange(state->groups[i].polled, false);
  }
  if (polled) state->waits = Waits::kMbarrier;
  return polled;
}

void Machine::RunWarp(const Kernel& kernel, WarpState* state,
                      int64_t instructions) {
  Warp& warp = state->warp;
  for (; instructions > 0; --instructions) {
    Group* const group = Choose(state);
    if (group == nullptr) {
      if (WaitsForMbarrier(state)) return;
      const Group& a = state->groups[0];
      return Blame(kernel, a.at,
                   state->count == 1
                       ? StrCat("of this warp only lanes ", LanesOf(a.lanes),
                                " are left; all are wanted")
                       : StrCat("lanes ", LanesOf(a.lanes),
                                " wait here for others, and those at line ",
                                kernel.code[state->groups[1].at].line));
    }
    const uint32_t at = group->at;
    const Instruction& in = kernel.code[at];
    ++executed_;
    if (++state->executed > kMaxInstructions) {
      return Blame(kernel, at, "a warp does not end");
    }
    uint32_t active = group->lanes;
    if (in.guard != kConstant) {
      if ((active & ~warp.written[in.guard_number]) != 0) {
        return Blame(kernel, at, "a guard that was never written");
      }
      const uint32_t guard =
          *reinterpret_cast<const uint32_t*>(warp.registers + in.guard);
      active &= in.negated ? ~guard : guard;
    }
    warp.mask = active;
    switch (in.operation->flow) {
      case Flow::kWarpgroup:
      case Flow::kWhole:
        if (active != 0 && active != kAllLanes) {
          group->waits = true;
          continue;
        }
        if (in.operation->flow == Flow::kWarpgroup && active != 0) {
          ++group->at;
          return ComeToProduct(kernel, state, at);
        }
        [[fallthrough]];
      case Flow::kNext:
        ++group->at;
        warp.lane_wise = in.operation->lane_wise;
        warp.unwritten = 0;
        if (active != 0) in.operation->run(warp, in);
        if (warp.polled) {
          group->polled = true;
          state->at = at;
          state->mbarrier = *std::exchange(warp.polled, {});
        }
        break;
      case Flow::kBranch: {
        const uint32_t rest = group->lanes & ~active;
        if (active == 0) {
          ++group->at;
        } else {
          group->at = in.target;
          group->lanes = active;
          if (rest != 0) {
            state->groups[state->count++] = {.at = at + 1, .lanes = rest};
          }
        }
        break;
      }
      case Flow::kReturn:
        group->lanes &= ~active;
        ++group->at;
        if (group->lanes == 0) {
          *group = state->groups[--state->count];
          if (state->count == 0) {
            if (warp.products != nullptr && !warp.products->under_way.empty()) {
              Blame(kernel, at,
                    StrCat("warp ", warp.number, " ends with ",
                           warp.products->under_way.size(),
                           " products that were not waited for"));
            }
            return;
          }
          // What waited may now have all there are.
          for (int i = 0; i < state->count; ++i) {
            state->groups[i].waits = false;
          }
        }
        break;
      case Flow::kBarrier:
      case Flow::kArrive:
        if (active == 0) {
          ++group->at;
          break;
        }
        if (active != group->lanes) {
          return Blame(kernel, at, "a barrier that is not for all lanes");
        }
        if (state->count > 1) {
          group->waits = true;
          continue;
        }
        ++group->at;
        warp.lane_wise = false;
        warp.unwritten = 0;
        ComeToBarrier(kernel, state, at);
        if (state->waits != Waits::kNot) return;
        break;
    }
    if (!block_.wrong.empty()) return Blame(kernel, at, block_.wrong);
  }
}

}  // namespace stowage::testing::ptx
