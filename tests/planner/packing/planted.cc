#include "tests/planner/packing/planted.h"

#include <cstddef>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace stowage::packing {
namespace {

struct Piece {
  Time left;
  Time right;
  Bytes bottom;
  Bytes top;
};

int64_t Between(std::mt19937_64& random, int64_t low, int64_t high) {
  const uint64_t width = static_cast<uint64_t>(high - low) + 1;
  return low + static_cast<int64_t>(random() % width);
}

// Cuts pieces->at(k) in two or five, if its sides allow for the cut drawn.
void Cut(std::mt19937_64& random, size_t k, std::vector<Piece>* pieces) {
  const Piece p = (*pieces)[k];
  const int64_t width = p.right - p.left;
  const Bytes height = p.top - p.bottom;
  switch (random() % 3) {
    case 0:
      if (width > 1) {
        const Time at = Between(random, p.left + 1, p.right - 1);
        (*pieces)[k].right = at;
        pieces->push_back({at, p.right, p.bottom, p.top});
      }
      return;
    case 1:
      if (height > 1) {
        const Bytes at = Between(random, p.bottom + 1, p.top - 1);
        (*pieces)[k].top = at;
        pieces->push_back({p.left, p.right, at, p.top});
      }
      return;
    default:
      if (width < 3 || height < 3) return;
      const Time x1 = Between(random, p.left + 1, p.right - 2);
      const Time x2 = Between(random, x1 + 1, p.right - 1);
      const Bytes y1 = Between(random, p.bottom + 1, p.top - 2);
      const Bytes y2 = Between(random, y1 + 1, p.top - 1);
      (*pieces)[k] = {p.left, x2, p.bottom, y1};
      pieces->push_back({x2, p.right, p.bottom, y2});
      pieces->push_back({x1, p.right, y2, p.top});
      pieces->push_back({p.left, x1, y1, p.top});
      pieces->push_back({x1, x2, y1, y2});
  }
}

}  // namespace

Problem PlantedProblem(const Planted& planted, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<Piece> pieces = {{0, planted.width, 0, planted.height}};
  while (static_cast<int>(pieces.size()) < planted.buffers) {
    // The larger of two, so that the pieces do not differ without measure.
    const auto area = [&](size_t k) {
      const Piece& p = pieces[k];
      return static_cast<double>(p.right - p.left) *
             static_cast<double>(p.top - p.bottom);
    };
    const size_t a = random() % pieces.size();
    const size_t b = random() % pieces.size();
    Cut(random, area(a) < area(b) ? b : a, &pieces);
  }
  for (size_t k = pieces.size(); k > 1; --k) {
    std::swap(pieces[k - 1], pieces[random() % k]);
  }
  Problem problem;
  for (const Piece& p : pieces) {
    problem.buffers.push_back({.id = std::to_string(problem.buffers.size()),
                               .lower = p.left,
                               .upper = p.right,
                               .size = p.top - p.bottom});
  }
  return problem;
}

}  // namespace stowage::packing
