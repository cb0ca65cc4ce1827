"""
Figures, as ratios within one run. ``make bench`` prints them and saves ``build/bench/NAME.json``.

Each module has ``rows()``: what it measured, as rows of ``{name, value, unit, goal, holds}``. A goal that begins with
``<=`` or ``>=`` either holds or not; a row without a goal is information.
"""
