// rope: the cosines and sines of all positions are computed first, into the
// workspace, and serve all heads and, where positions are those of every example,
// the whole batch.

#include <algorithm>
#include <cstdint>

#include "cpu/kernel.h"
#include "cpu/kernels/chunks.h"
#include "cpu/kernels/dispatch.h"
#include "cpu/kernels/vec.h"
#include "math/trigonometry.h"

namespace stowage::cpu {
namespace {

// Positions that the table has a row for: of one example or of all.
int64_t TableRows(const Shape& x, const Shape* positions) {
  const bool of_batch = positions != nullptr && positions->rank() == 2;
  return of_batch ? x[0] * x[1] : x[1];
}

// The workspace: the turns of each pair, then for each position the cosines of all
// pairs and their sines.
template <typename T>
struct Table {
  double* turns;
  T* rows;
  int64_t pairs;

  T* cosines(int64_t row) const { return rows + row * 2 * pairs; }
  T* sines(int64_t row) const { return cosines(row) + pairs; }
};

template <typename T>
Table<T> MakeTable(const Launch& launch, ThreadPool& pool) {
  const Attrs& attrs = *launch.attrs;
  const int64_t dims = attrs.Int("dims");
  const double sign = attrs.Int("inverse") != 0 ? -1 : 1;
  const bool told = launch.inputs.size() == 2;
  const int32_t* positions =
      told ? launch.inputs[1].as<const int32_t>() : nullptr;
  Table<T> table;
  table.pairs = dims / 2;
  table.turns = reinterpret_cast<double*>(launch.workspace.data());
  table.rows = reinterpret_cast<T*>(table.turns + table.pairs);
  for (int64_t pair = 0; pair < table.pairs; ++pair) {
    table.turns[pair] = math::RopeTurns(attrs.Float("base"), dims, pair);
  }
  const int64_t rows = TableRows(launch.inputs[0].shape(),
                                 told ? &launch.inputs[1].shape() : nullptr);
  ParallelRanges(pool, rows, RowsPerChunk(8 * dims),
                 [&](int64_t begin, int64_t end) {
                   for (int64_t row = begin; row < end; ++row) {
                     const int32_t position =
                         told ? positions[row] : static_cast<int32_t>(row);
                     T* cosines = table.cosines(row);
                     T* angles = table.sines(row);  // at first
                     for (int64_t pair = 0; pair < table.pairs; ++pair) {
                       angles[pair] = static_cast<T>(
                           sign * math::RopeAngle(position, table.turns[pair]));
                     }
                     ForEachVec<T>(table.pairs, [&](auto at) {
                       const Vec<T> angle = at.Load(angles);
                       at.Store(cosines, Cos(angle));
                       at.Store(angles, Sin(angle));
                     });
                   }
                 });
  return table;
}

// One head. `to` may be `from`.
template <typename T>
void RotateHalves(int64_t pairs, const T* cosines, const T* sines,
                  const T* from, T* to) {
  ForEachVec<T>(pairs, [&](auto at) {
    const Vec<T> a = at.Load(from);
    const Vec<T> b = at.Load(from + pairs);
    const Vec<T> cosine = at.Load(cosines);
    const Vec<T> sine = at.Load(sines);
    at.Store(to, MulAdd(a, cosine, -(b * sine)));
    at.Store(to + pairs, MulAdd(b, cosine, a * sine));
  });
}
template <typename T>
void RotateNeighbours(int64_t pairs, const T* cosines, const T* sines,
                      const T* from, T* to) {
  for (int64_t i = 0; i < pairs; ++i) {
    const T a = from[2 * i];
    const T b = from[2 * i + 1];
    to[2 * i] = a * cosines[i] - b * sines[i];
    to[2 * i + 1] = b * cosines[i] + a * sines[i];
  }
}

template <typename T>
void Run(const Launch& launch, ThreadPool& pool) {
  const TensorView& x = launch.inputs[0];
  const int64_t length = x.shape()[1];
  const int64_t heads = x.shape()[2];
  const int64_t depth = x.shape()[3];
  const bool interleaved = launch.attrs->Int("interleaved") != 0;
  const bool of_batch =
      launch.inputs.size() == 2 && launch.inputs[1].shape().rank() == 2;
  const Table<T> table = MakeTable<T>(launch, pool);
  const int64_t dims = 2 * table.pairs;
  ParallelRanges(pool, x.shape()[0] * length, RowsPerChunk(heads * depth),
                 [&](int64_t begin, int64_t end) {
                   for (int64_t token = begin; token < end; ++token) {
                     const int64_t batch = token / length;
                     const int64_t time = token % length;
                     const int64_t row = of_batch ? token : time;
                     const T* from = x.as<const T>() + batch * x.strides[0] +
                                     time * x.strides[1];
                     T* to = launch.outputs[0].as<T>() + token * heads * depth;
                     for (int64_t head = 0; head < heads; ++head) {
                       if (interleaved) {
                         RotateNeighbours(table.pairs, table.cosines(row),
                                          table.sines(row), from, to);
                       } else {
                         RotateHalves(table.pairs, table.cosines(row),
                                      table.sines(row), from, to);
                       }
                       if (from != to)
                         std::copy(from + dims, from + depth, to + dims);
                       from += x.strides[2];
                       to += depth;
                     }
                   }
                 });
}

StepCode RunRope(const Launch& launch, ThreadPool& pool) noexcept {
  OnFloat(launch.outputs[0].dtype(),
          [&](auto zero) { Run<decltype(zero)>(launch, pool); });
  return StepCode::kOk;
}

Bytes RopeWorkspace(const OpArgs& args, std::span<const TensorType>, int) {
  const int64_t dims = args.attrs.Int("dims");
  const int64_t rows =
      TableRows(args.shape(0), args.count() == 2 ? &args.shape(1) : nullptr);
  return dims / 2 * static_cast<Bytes>(sizeof(double)) +
         rows * dims * SizeOf(args.type(0).dtype);
}

}  // namespace

namespace kernels {

constinit const CpuKernel Rope = {.run = RunRope, .workspace = RopeWorkspace};

}  // namespace kernels
}  // namespace stowage::cpu
