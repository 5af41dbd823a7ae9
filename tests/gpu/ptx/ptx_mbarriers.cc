#include "tests/gpu/ptx/ptx_mbarriers.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/strings.h"
#include "tests/gpu/ptx/ptx_block.h"
#include "tests/gpu/ptx/ptx_memory.h"
#include "tests/gpu/ptx/ptx_module.h"
#include "tests/gpu/ptx/ptx_order.h"

namespace stowage::testing::ptx {
namespace {

// "Contents of the mbarrier object": of arrivals from 1 on, of bytes either way.
constexpr int64_t kMaxCount = (int64_t{1} << 20) - 1;

// What an instruction is, by its suffixes.
enum class In : uint8_t { kShared, kGeneric };

// Of the addresses of an operand, where in shared memory they are.
template <In in_space>
bool ReadAddresses(Warp& warp, const Slot& slot, uint64_t (&to)[kLanes]) {
  warp.ReadAddresses(slot, to);
  if (in_space == In::kShared) return true;
  for (int lane = 0; lane < kLanes; ++lane) {
    if ((warp.mask >> lane & 1) == 0) continue;
    if (to[lane] >> 32 != kSharedWindow >> 32) {
      warp.Report(StrCat("an mbarrier at ", to[lane],
                         ", which is not in shared memory"));
      return false;
    }
    to[lane] -= kSharedWindow;
  }
  return true;
}

// A state is the phase that is not over, and the arrivals that it waits for.
uint64_t StateOf(const Mbarrier& barrier) {
  return static_cast<uint64_t>(barrier.phase) << 32 | barrier.pending;
}
int64_t PhaseOf(uint64_t state) { return static_cast<int64_t>(state >> 32); }

std::string CheckTx(int64_t tx) {
  if (tx >= -kMaxCount && tx <= kMaxCount) return {};
  return StrCat(tx, " bytes are expected; a phase can count to ", kMaxCount,
                " either way");
}

// Ends the phase if nothing is missing. Returns what is wrong.
std::string EndPhase(Mbarriers& mbarriers, uint64_t address) {
  Mbarrier& barrier = mbarriers.at.at(address);
  ++mbarriers.changes;
  std::string wrong = CheckTx(barrier.tx);
  if (!wrong.empty()) return NameOf(mbarriers, address) + ": " + wrong;
  if (barrier.pending != 0 || barrier.tx != 0) return {};
  if (barrier.under_way != 0) {
    return StrCat("phase ", barrier.phase, " of the mbarrier at ", address,
                  " ends while ", barrier.under_way,
                  " copies that signal it are under way, for fewer bytes were "
                  "expected than are copied");
  }
  if (barrier.copies != 0) {
    barrier.arrived.AddAll(barrier.agent, Order::SegmentOf(barrier.copies));
  }
  barrier.over = std::exchange(barrier.arrived, Clock());
  barrier.copies = 0;
  barrier.pending = barrier.expected;
  ++barrier.phase;
  return {};
}

void ReportWrong(Warp& warp, const std::string& wrong) {
  if (!wrong.empty()) warp.Report(wrong);
}

// mbarrier.init [address], count
template <In in_space>
void Init(Warp& warp, const Instruction& in) {
  uint64_t addresses[kLanes];
  if (!ReadAddresses<in_space>(warp, in.slots[0], addresses)) return;
  const auto* count = warp.Read<uint32_t>(in.slots[1]);
  Memory& memory = *warp.block->memory;
  Mbarriers& mbarriers = warp.block->mbarriers;
  for (int lane = 0; lane < kLanes; ++lane) {
    if ((warp.mask >> lane & 1) == 0) continue;
    const uint64_t address = addresses[lane];
    if (mbarriers.at.contains(address)) {
      return warp.Report(
          StrCat("mbarrier.init of ", NameOf(mbarriers, address),
                 ", which is one already; expected mbarrier.inval before"));
    }
    if (count[lane] < 1 || count[lane] > kMaxCount) {
      return warp.Report(StrCat("an mbarrier for ", count[lane],
                                " arrivals; expected 1 to ", kMaxCount));
    }
    if (!memory.TakeForMbarrier(address, warp.number, lane)) {
      return warp.Report(memory.error());
    }
    Mbarrier& barrier = mbarriers.at[address];
    barrier.expected = barrier.pending = count[lane];
    barrier.made =
        memory.order().Stamp(warp.number, static_cast<uint32_t>(lane));
    barrier.agent = memory.order().NewMbarrier();
    ++mbarriers.changes;
  }
}

// mbarrier.inval [address]
template <In in_space>
void Invalidate(Warp& warp, const Instruction& in) {
  uint64_t addresses[kLanes];
  if (!ReadAddresses<in_space>(warp, in.slots[0], addresses)) return;
  for (int lane = 0; lane < kLanes; ++lane) {
    if ((warp.mask >> lane & 1) == 0) continue;
    const uint64_t address = addresses[lane];
    const Mbarrier* const barrier = FindMbarrier(warp, address, lane);
    if (barrier == nullptr) return;
    Mbarriers& mbarriers = warp.block->mbarriers;
    if (barrier->waited < barrier->has_copies) {
      return warp.Report(StrCat("mbarrier.inval of ",
                                NameOf(mbarriers, address),
                                ": nobody has waited for copies that signal "
                                "its phase ",
                                barrier->has_copies));
    }
    warp.block->memory->GiveBack(address, warp.number, lane);
    mbarriers.at.erase(address);
    ++mbarriers.changes;
  }
}

// mbarrier.expect_tx [address], bytes
template <In in_space>
void ExpectTx(Warp& warp, const Instruction& in) {
  uint64_t addresses[kLanes];
  if (!ReadAddresses<in_space>(warp, in.slots[0], addresses)) return;
  const auto* bytes = warp.Read<uint32_t>(in.slots[1]);
  Mbarriers& mbarriers = warp.block->mbarriers;
  for (int lane = 0; lane < kLanes; ++lane) {
    if ((warp.mask >> lane & 1) == 0) continue;
    Mbarrier* const barrier = FindMbarrier(warp, addresses[lane], lane);
    if (barrier == nullptr) return;
    barrier->tx += bytes[lane];
    ReportWrong(warp, EndPhase(mbarriers, addresses[lane]));
  }
}

// What an arrival does beside: nothing, or expects bytes, or may not end the phase.
enum class And : uint8_t { kNothing, kExpectsTx, kDoesNotComplete };

// mbarrier.arrive state, [address] {, count or bytes}
template <In in_space, bool releases, And also>
void Arrive(Warp& warp, const Instruction& in) {
  uint64_t addresses[kLanes];
  if (!ReadAddresses<in_space>(warp, in.slots[1], addresses)) return;
  const uint32_t* const operand =
      in.count > 2 ? warp.Read<uint32_t>(in.slots[2]) : nullptr;
  const bool has_count = operand != nullptr && also != And::kExpectsTx;
  Block& block = *warp.block;
  alignas(64) uint64_t states[kLanes] = {};
  for (uint32_t left = warp.mask; left != 0;) {
    const int lane = std::countr_zero(left);
    const uint64_t address = addresses[lane];
    Mbarrier* const barrier = FindMbarrier(warp, address, lane);
    if (barrier == nullptr) return;
    uint32_t arrivals = has_count ? operand[lane] : 1;
    if (arrivals < 1 || arrivals > barrier->pending) {
      return warp.Report(
          StrCat(arrivals, " arrivals at ", NameOf(block.mbarriers, address)));
    }
    states[lane] = StateOf(*barrier);
    uint32_t lanes = uint32_t{1} << lane;
    // Others that arrive at the same phase do so at once.
    for (int other = lane + 1;
         other < kLanes && operand == nullptr && arrivals < barrier->pending;
         ++other) {
      if ((left >> other & 1) == 0 || addresses[other] != address) continue;
      if (FindMbarrier(warp, address, other) == nullptr) return;
      states[other] = StateOf(*barrier) - arrivals;
      lanes |= uint32_t{1} << other;
      ++arrivals;
    }
    left &= ~lanes;
    if (also == And::kExpectsTx) barrier->tx += operand[lane];
    if (releases) {
      barrier->arrived.Join(block.memory->order().Release(warp.number, lanes));
    }
    barrier->pending -= arrivals;
    if (also == And::kDoesNotComplete && barrier->pending == 0) {
      return warp.Report(StrCat("an arrival that may not end its phase, at ",
                                NameOf(block.mbarriers, address)));
    }
    const std::string wrong = EndPhase(block.mbarriers, address);
    if (!wrong.empty()) return warp.Report(wrong);
  }
  warp.Write(in.slots[0], states);
}

// mbarrier.test_wait, try_wait p, [address], state {, time}; or its parity.
template <In in_space, bool acquires, bool by_parity>
void Wait(Warp& warp, const Instruction& in) {
  uint64_t addresses[kLanes];
  if (!ReadAddresses<in_space>(warp, in.slots[1], addresses)) return;
  const Slot& slot = in.slots[2];
  if (slot.bytes != (by_parity ? 4 : 8)) {
    return warp.Report("neither a state of 64 bits nor a parity of 32");
  }
  Block& block = *warp.block;
  uint32_t over = 0;
  for (int lane = 0; lane < kLanes; ++lane) {
    if ((warp.mask >> lane & 1) == 0) continue;
    Mbarrier* const barrier = FindMbarrier(warp, addresses[lane], lane);
    if (barrier == nullptr) return;
    bool is_over;
    if (by_parity) {
      const uint32_t parity = warp.Read<uint32_t>(slot)[lane];
      if (parity > 1) {
        return warp.Report(StrCat("a parity of ", parity));
      }
      is_over = (barrier->phase & 1) != parity;
    } else {
      const int64_t phase = PhaseOf(warp.Read<uint64_t>(slot)[lane]);
      if (phase > barrier->phase || phase < barrier->phase - 1) {
        return warp.Report(StrCat("a wait with a state of phase ", phase,
                                  " for ",
                                  NameOf(block.mbarriers, addresses[lane])));
      }
      is_over = phase != barrier->phase;
    }
    if (!is_over) {
      warp.polled = addresses[lane];
      continue;
    }
    over |= uint32_t{1} << lane;
    barrier->waited = barrier->phase - 1;
  }
  for (uint32_t left = acquires ? over : 0; left != 0;) {
    const uint64_t address = addresses[std::countr_zero(left)];
    uint32_t lanes = 0;
    for (int lane = 0; lane < kLanes; ++lane) {
      if (addresses[lane] == address) lanes |= left & uint32_t{1} << lane;
    }
    left &= ~lanes;
    block.memory->order().Acquire(warp.number, lanes,
                                  block.mbarriers.at.at(address).over);
  }
  warp.WritePredicate(in.slots[0], over);
}

// nanosleep, which may be none at all.
void Sleep(Warp& warp, const Instruction& in) {
  warp.Read<uint32_t>(in.slots[0]);
}

void FenceInit(Warp& warp, const Instruction&) {
  warp.block->memory->order().FenceProxy(warp.number, warp.mask, kFencesInit);
}

template <In in_space>
void AddSpace(const std::string& space, std::vector<Operation>* table) {
  const auto add = [&](const std::string& name, Handler run,
                       std::vector<uint8_t> widths, uint8_t optional = 0) {
    table->push_back({StrCat(name, space, ".b64"), run, Flow::kNext,
                      std::move(widths), false, optional});
  };
  add("mbarrier.init", Init<in_space>, {kAddress, 4});
  add("mbarrier.inval", Invalidate<in_space>, {kAddress});
  for (const char* const scope : {"", ".relaxed.cta", ".relaxed.cluster"}) {
    add(StrCat("mbarrier.expect_tx", scope), ExpectTx<in_space>, {kAddress, 4});
  }
  const auto add_arrive = [&]<bool releases>(const std::string& sem) {
    add(StrCat("mbarrier.arrive", sem),
        Arrive<in_space, releases, And::kNothing>, {8, kAddress, 4}, 1);
    add(StrCat("mbarrier.arrive.expect_tx", sem),
        Arrive<in_space, releases, And::kExpectsTx>, {8, kAddress, 4});
    add(StrCat("mbarrier.arrive.noComplete", sem),
        Arrive<in_space, releases, And::kDoesNotComplete>, {8, kAddress, 4});
  };
  const auto add_wait = [&]<bool acquires>(const std::string& sem) {
    for (const char* const how : {"mbarrier.test_wait", "mbarrier.try_wait"}) {
      add(StrCat(how, sem), Wait<in_space, acquires, false>,
          {kPredicate, kAddress, kAnySize, 4}, 1);
      add(StrCat(how, ".parity", sem), Wait<in_space, acquires, true>,
          {kPredicate, kAddress, 4, 4}, 1);
    }
  };
  add_arrive.template operator()<true>("");
  add_wait.template operator()<true>("");
  for (const char* const scope : {".cta", ".cluster"}) {
    add_arrive.template operator()<true>(StrCat(".release", scope));
    add_arrive.template operator()<false>(StrCat(".relaxed", scope));
    add_wait.template operator()<true>(StrCat(".acquire", scope));
    add_wait.template operator()<false>(StrCat(".relaxed", scope));
  }
}

}  // namespace

std::string NameOf(const Mbarriers& mbarriers, uint64_t address) {
  const auto found = mbarriers.at.find(address);
  if (found == mbarriers.at.end()) return StrCat("the mbarrier at ", address);
  const Mbarrier& barrier = found->second;
  return StrCat("the mbarrier at ", address, ", whose phase ", barrier.phase,
                " waits for ", barrier.pending, " arrivals and ", barrier.tx,
                " bytes");
}

Mbarrier* FindMbarrier(Warp& warp, uint64_t address, int lane) {
  Block& block = *warp.block;
  const auto found = block.mbarriers.at.find(address);
  if (found == block.mbarriers.at.end()) {
    warp.Report(StrCat("there is no mbarrier at ", address,
                       " of shared memory; expected mbarrier.init before"));
    return nullptr;
  }
  Mbarrier& barrier = found->second;
  if (block.memory->order().Conflicts(Space::kShared, barrier.made, warp.number,
                                      static_cast<uint32_t>(lane))) {
    warp.Report(StrCat(
        "a race: the mbarrier at ", address, " was initialised by ",
        block.memory->order().NameOf(barrier.made), " and is used by warp ",
        warp.number, " lane ", lane, " without a barrier in between"));
    return nullptr;
  }
  return &barrier;
}

std::string CompleteCopy(Mbarriers& mbarriers, uint64_t address,
                         uint32_t bytes) {
  Mbarrier& barrier = mbarriers.at.at(address);
  barrier.tx -= bytes;
  --barrier.under_way;
  return EndPhase(mbarriers, address);
}

std::string CopiesNotWaitedFor(const Mbarriers& mbarriers) {
  for (const auto& [address, barrier] : mbarriers.at) {
    if (barrier.waited >= barrier.has_copies) continue;
    return StrCat(
        "the block ends, and nobody has waited for copies that "
        "signal phase ",
        barrier.has_copies, " of the mbarrier at ", address);
  }
  return {};
}

std::vector<Operation> MbarrierOperations() {
  std::vector<Operation> table = {
      {"fence.mbarrier_init.release.cluster", FenceInit, Flow::kNext, {}},
      {"nanosleep.u32", Sleep, Flow::kNext, {4}}};
  AddSpace<In::kGeneric>("", &table);
  for (const char* const space :
       {".shared", ".shared::cta", ".shared::cluster"}) {
    AddSpace<In::kShared>(space, &table);
  }
  return table;
}

}  // namespace stowage::testing::ptx
