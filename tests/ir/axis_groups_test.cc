#include "ir/axis_groups.h"

#include <doctest/doctest.h>

#include <cstdint>
#include <initializer_list>
#include <vector>

namespace stowage {
namespace {

AxisGroups Groups(const Shape& shape, std::initializer_list<int64_t> reduced) {
  return AxisGroups(shape, std::vector<int64_t>(reduced));
}

void CheckSimple(const AxisGroups& groups, int64_t outer, int64_t reduced,
                 int64_t inner) {
  CHECK(groups.simple());
  CHECK(groups.outer() == outer);
  CHECK(groups.reduced() == reduced);
  CHECK(groups.inner() == inner);
  CHECK(groups.kept() == outer * inner);
}

TEST_CASE("neighbouring axes of one kind are one group") {
  CheckSimple(Groups({8, 3, 4, 5}, {1, 2}), 8, 12, 5);
  CheckSimple(Groups({2, 4, 3, 5}, {2, 3}), 8, 15, 1);
  CheckSimple(Groups({2, 4, 3, 5}, {1, 0}), 1, 8, 15);
}

TEST_CASE("an axis of size 1 joins no group and parts none") {
  CheckSimple(Groups({8, 3, 1, 4, 5}, {1, 3}), 8, 12, 5);
  CheckSimple(Groups({8, 1, 5}, {1}), 40, 1, 1);
  CheckSimple(Groups({1, 1}, {0}), 1, 1, 1);
}

TEST_CASE("all axes, or none, may be reduced") {
  CheckSimple(AxisGroups::AllReduced({2, 3, 4}), 1, 24, 1);
  CheckSimple(AxisGroups::AllReduced({}), 1, 1, 1);
  CheckSimple(Groups({2, 3, 4}, {}), 24, 1, 1);
}

TEST_CASE("groups that alternate have a size and a stride each") {
  const AxisGroups groups = Groups({2, 3, 4, 5, 6}, {0, 2, 3});
  CHECK(!groups.simple());
  CHECK(!groups.inner_is_reduced);
  CHECK(groups.reduced_dims == Shape{2, 20});
  CHECK(groups.reduced_strides == Strides{360, 6});
  CHECK(groups.kept_dims == Shape{3, 6});
  CHECK(groups.kept_strides == Strides{120, 1});
}

}  // namespace
}  // namespace stowage
