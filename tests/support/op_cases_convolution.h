#ifndef STOWAGE_TESTS_SUPPORT_OP_CASES_CONVOLUTION_H_
#define STOWAGE_TESTS_SUPPORT_OP_CASES_CONVOLUTION_H_

// The convolution ops' rows of the op test table (tests/support/op_cases.h): every
// convolution in its three forms.

#include <vector>

#include "ir/dtype.h"
#include "tests/support/op_cases.h"

namespace stowage {

std::vector<OpCase> ConvolutionCases(DType real, double tolerance);

}  // namespace stowage

#endif  // STOWAGE_TESTS_SUPPORT_OP_CASES_CONVOLUTION_H_
