#pragma once

constexpr int kBase = 10;
