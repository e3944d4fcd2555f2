#include "harness.h"

#include <utility>

namespace glint::gpu {

namespace {
std::string notes;
}

std::vector<Test>& tests() {
  static std::vector<Test> all;
  return all;
}

bool& small_shapes() {
  static bool small = false;
  return small;
}

int repetitions() {
  return small_shapes() ? 2 : 20;
}

void note(const std::string& text) {
  notes += " " + text;
}

std::string take_notes() {
  return std::exchange(notes, std::string());
}

}  // namespace glint::gpu
