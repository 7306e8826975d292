"""A learnt forecast of the verdict, read off an episode at the end of every stage.

``network`` forecasts, ``memory`` keeps settled episodes, ``learning`` teaches it from
them. What a forecast pays for, and that the verdict corrects all of it, is the
business of a credit rule (``ops``): whatever the critic says, the phases add up.
"""
