"""Recognition here or elsewhere: pictures, recipes, the server and its client, what each step
costs."""
