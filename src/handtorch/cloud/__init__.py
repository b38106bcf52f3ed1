"""Recognition here or elsewhere: pictures, recipes, and what each step of it costs."""
