// The main function of every test. `bazel test --test_filter=PATTERN` reaches
// us as TESTBRIDGE_TEST_ONLY and selects test cases by name (* matches any
// run of characters); doctest's own flags work too.

#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>

#include <cstdlib>

int main(int argc, char** argv) {
  doctest::Context context;
  if (const char* filter = std::getenv("TESTBRIDGE_TEST_ONLY")) {
    context.addFilter("test-case", filter);
  }
  context.applyCommandLine(argc, argv);
  return context.run();
}
