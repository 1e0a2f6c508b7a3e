// Builds the Value of a row in the table of DeepSpeed's keys. `usual` is DeepSpeed's default as JSON.
#pragma once
#include "app/deepspeed/key.h"

namespace ft::deepspeed {

constexpr double kMost = 9e15;  // largest whole number: doubles are exact up to there

constexpr Value flag(const char* usual) { return {.kind = Kind::flag, .usual = usual}; }
constexpr Value whole(double low, const char* usual = "", double high = kMost) {
  return {.kind = Kind::whole, .low = low, .high = high, .usual = usual};
}
constexpr Value number(double low, const char* usual = "", double high = 1e300) {
  return {.kind = Kind::number, .low = low, .high = high, .usual = usual};
}
constexpr Value number_above(double low, const char* usual = "", double high = 1e300) {
  return {.kind = Kind::number, .low = low, .high = high, .above_low = true, .usual = usual};
}
constexpr Value text(const char* words = "", const char* usual = "") {
  return {.kind = Kind::text, .words = words, .usual = usual};
}
constexpr Value two_numbers(double low, double high) {
  return {.kind = Kind::numbers2, .low = low, .high = high};
}
constexpr Value list() { return {.kind = Kind::list}; }
constexpr Value any() { return {}; }

}  // namespace ft::deepspeed
