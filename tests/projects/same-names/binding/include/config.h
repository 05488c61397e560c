#pragma once

constexpr int kBase = 1000;
